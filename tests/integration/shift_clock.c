/* Put before the daemon by LD_PRELOAD: the wall clock that it reads is off by
 * as many seconds as SHIFT_CLOCK says, and by those in the file that
 * SHIFT_CLOCK_FILE names, an int64_t: to write there is to set the clock, and
 * timers on it are told as the system tells them. Other clocks are right. Any
 * thread. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#ifndef TFD_TIMER_CANCEL_ON_SET
#define TFD_TIMER_CANCEL_ON_SET (1 << 1)
#endif

static time_t shift;
static _Atomic int64_t no_step, *step = &no_step;
static const char *step_path;

static void
step_from_file(void)
{
	int fd = open(step_path, O_RDONLY | O_CLOEXEC);
	void *at;

	if (fd < 0)
		abort();
	at = mmap(NULL, sizeof(*step), PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		abort();
	step = at;
	close(fd);
}

static void __attribute__((constructor)) shift_from_environment(void)
{
	const char *text = getenv("SHIFT_CLOCK");

	shift = text ? strtol(text, NULL, 10) : 0;
	step_path = getenv("SHIFT_CLOCK_FILE");
	if (step_path)
		step_from_file();
}

int
clock_gettime(clockid_t clock, struct timespec *t)
{
	int r = (int)syscall(SYS_clock_gettime, clock, t);

	if (!r && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		t->tv_sec += shift + (time_t)atomic_load(step);
	return r;
}

/* One on the wall clock becomes a watch of the file. */
int
timerfd_create(clockid_t clock, int flags)
{
	int fd;

	if (!step_path || clock != CLOCK_REALTIME)
		return (int)syscall(SYS_timerfd_create, clock, flags);
	fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (fd >= 0 && inotify_add_watch(fd, step_path, IN_MODIFY) < 0)
		abort();
	return fd;
}

int
timerfd_settime(int fd, int flags, const struct itimerspec *new_value,
	struct itimerspec *old_value)
{
	char told[4096];

	if (!step_path || !(flags & TFD_TIMER_CANCEL_ON_SET))
		return (int)syscall(
			SYS_timerfd_settime, fd, flags, new_value, old_value);
	while (read(fd, told, sizeof(told)) > 0)
		;
	return 0;
}

int
gettimeofday(struct timeval *restrict t, void *restrict zone)
{
	struct timespec now;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	*t = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
	return 0;
}

time_t
time(time_t *t)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (t)
		*t = now.tv_sec;
	return now.tv_sec;
}
