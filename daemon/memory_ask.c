#include "memory_ask.h"

#include <stdlib.h>

#include "base/list.h"
#include "exec/loop.h"
#include "stats/memory.h"

struct memory_ask {
	uv_work_t work;
	struct loop *loop;
	int fd;
	memory_done_fn done;
	void *arg;
	struct memory memory;
};

static void
on_work(uv_work_t *work)
{
	struct memory_ask *a = container_of(work, struct memory_ask, work);

	if (a->fd < 0 || !memory_read(a->fd, &a->memory))
		a->memory = (struct memory){.resident = memory_resident()};
}

static void
on_done(uv_work_t *work, int status)
{
	struct memory_ask *a = container_of(work, struct memory_ask, work);
	bool ends = status || a->loop->sched.closing;

	a->done(a->arg, ends ? NULL : &a->memory);
	free(a);
}

void
memory_ask(struct loop *l, int fd, memory_done_fn done, void *arg)
{
	struct memory cheap = {.resident = memory_resident()};
	struct memory_ask *a = calloc(1, sizeof(*a));

	if (a) {
		*a = (struct memory_ask){
			.loop = l, .fd = fd, .done = done, .arg = arg};
		if (!uv_queue_work(&l->uv, &a->work, on_work, on_done))
			return;
		free(a);
	}
	done(arg, &cheap);
}
