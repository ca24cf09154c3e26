#include "kernel/stall.h"

#include <errno.h>
#include <time.h>

#include "base/clock.h"

enum { IDLE, ASKED, TELLING };

void
stall_init(struct stall *st)
{
	atomic_store(&st->state, IDLE);
	sem_init(&st->told, 0, 0);
}

void
stall_ask(struct stall *st)
{
	st->text[0] = '\0';
	st->n_frames = 0;
	atomic_store(&st->state, ASKED);
}

static int
wait_until(sem_t *told, const struct timespec *due)
{
	int r;

	do
		r = sem_timedwait(told, due);
	while (r < 0 && errno == EINTR);
	return r;
}

bool
stall_wait(struct stall *st, unsigned ms)
{
	struct timespec due;
	int asked = ASKED;

	clock_gettime(CLOCK_REALTIME, &due);
	due.tv_sec += ms / 1000;
	due.tv_nsec += (long)(ms % 1000) * (long)NS_PER_MS;
	due.tv_sec += due.tv_nsec / (long)NS_PER_S;
	due.tv_nsec %= (long)NS_PER_S;
	if (wait_until(&st->told, &due) == 0)
		return true;
	if (atomic_compare_exchange_strong(&st->state, &asked, IDLE))
		return false;
	while (sem_wait(&st->told) < 0) /* it is being told just now */
		;
	return true;
}

bool
stall_begin(struct stall *st)
{
	int asked = ASKED;

	return atomic_compare_exchange_strong(&st->state, &asked, TELLING);
}

void
stall_end(struct stall *st)
{
	atomic_store(&st->state, IDLE);
	sem_post(&st->told);
}
