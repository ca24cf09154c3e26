#include "watch_pools.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "coro/fault.h"
#include "exec/pool.h"
#include "kernel/away.h"
#include "kernel/sched.h"
#include "where.h"

enum {
	ANSWERS_MS = 100, /* for all answers of a round */
	SYSCALL_TEXT = 256,
};

/* ---- on the loop's thread ---------------------------------------------- */

void
watch_pools_look(struct sched *s, struct watch_found *found)
{
	struct executor *x;

	found->n = 0;
	for (uint32_t i = 0; (x = kernel_executor_at(s->kernel, i)); i++)
		if (atomic_load(&x->n_sessions))
			found->n += pool_look_stuck(
				container_of(x, struct pool, executor), s,
				found->stuck + found->n,
				WATCH_POOLS_ROUND - found->n);
}

/* ---- on the stuck thread ----------------------------------------------- */

static int
where_signal(void)
{
	return SIGRTMIN + 8;
}

/* At any instruction of its handler, or of another one by now. */
static void
on_where_signal(int number, siginfo_t *info, void *context)
{
	int saved_errno = errno;
	struct watch_pools *w = info->si_value.sival_ptr;
	const struct away *a = away_here;

	(void)number;
	if (info->si_code != SI_QUEUE || info->si_pid != getpid())
		return;
	if (a && a->session->spec &&
		session_id(a->session) == atomic_load(&w->session) &&
		atomic_load(&a->since_ns) == atomic_load(&w->since_ns))
		where_answer(a->session, &w->stall, coro_fault_pc(context));
	errno = saved_errno;
}

void
watch_pools_init(struct watch_pools *w)
{
	struct sigaction a = {.sa_sigaction = on_where_signal,
		.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};

	stall_init(&w->stall);
	sigfillset(&a.sa_mask);
	sigaction(where_signal(), &a, NULL);
}

/* ---- on the watch's thread --------------------------------------------- */

/* "NUMBER ARGUMENT... STACK PC" of a thread that waits in a system call, or
 * "running"; false: it runs, or nothing can be told. */
static bool
is_in_call(const struct stuck *stuck, char text[STALL_TEXT])
{
	char line[SYSCALL_TEXT], path[64], frame[STALL_TEXT - 64];
	const char *last;
	bool plugin;
	ssize_t n;
	long call;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall",
		(int)stuck->thread);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return false;
	line[n] = '\0';
	last = strrchr(line, ' ');
	call = strtol(line, NULL, 10);
	if (!last || call < 0)
		return false;
	where_frame(stuck->program,
		(const void *)(uintptr_t)strtoull(last, NULL, 16), frame,
		sizeof(frame), &plugin);
	snprintf(text, STALL_TEXT, "%s in system call %ld", frame, call);
	return true;
}

/* By its thread's number, which is nobody's if that has ended. */
static bool
ask(struct watch_pools *w, const struct stuck *stuck)
{
	siginfo_t info = {.si_signo = where_signal(), .si_code = SI_QUEUE};

	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_ptr = w;
	atomic_store(&w->session, stuck->session);
	atomic_store(&w->since_ns, stuck->since_ns);
	stall_ask(&w->stall);
	return syscall(SYS_rt_tgsigqueueinfo, getpid(), stuck->thread,
		       where_signal(), &info) == 0;
}

static void
find_place(struct watch_pools *w, const struct stuck *stuck, unsigned ms,
	char text[STALL_TEXT])
{
	text[0] = '\0';
	if (!stuck->is_script && is_in_call(stuck, text))
		return;
	if (ask(w, stuck))
		where_text(&w->stall, stuck->program, ms, text);
}

void
watch_pools_tell(struct watch_pools *w, struct watch_found *found)
{
	uint64_t due = clock_now(&clock_system) + ANSWERS_MS * NS_PER_MS;
	char where[STALL_TEXT];

	for (uint32_t i = 0; i < found->n; i++) {
		const struct stuck *stuck = &found->stuck[i];
		uint64_t now = clock_now(&clock_system);
		bool stops = stuck->on_stall == STALL_STOP && stuck->is_script;

		find_place(w, stuck,
			now < due ? (unsigned)((due - now) / NS_PER_MS) : 0,
			where);
		log_err("session.stuck",
			"session=\"%s\" event=\"%s\" event_id=%" PRIu64
			" executor=\"%s\" thread=%d ms=%" PRIu64
			" traceback=\"%s\" "
			"reason=\"its handler does not return; %s\"",
			stuck->name, stuck->event, stuck->event_id,
			stuck->executor, (int)stuck->thread,
			stuck->ns / NS_PER_MS, where,
			stops ? "it is stopped (OnStall=)" : "it is left");
	}
	found->n = 0;
}
