/* daemon/stats/memory.c on this process and another. */
#include "stats/memory.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { MORE = 16 << 20 };

static void *
touched(int flags)
{
	char *p = mmap(NULL, MORE, PROT_READ | PROT_WRITE,
		MAP_ANONYMOUS | flags, -1, 0);

	assert_true(p != MAP_FAILED);
	memset(p, 1, MORE);
	return p;
}

static struct memory
read_now(int fd)
{
	struct memory m;

	assert_true(memory_read(fd, &m));
	return m;
}

static void
test_the_parts_are_the_whole(void **state)
{
	int fd = memory_open(0);
	struct memory m;

	(void)state;
	assert_true(fd >= 0);
	m = read_now(fd);
	assert_int_equal(m.private + m.shared, m.resident);
	assert_in_range(m.proportional, m.private, m.resident);
	close(fd);
}

static void
test_an_open_file_tells_what_is_new(void **state)
{
	int fd = memory_open(0);
	struct memory before = read_now(fd), after;
	void *p = touched(MAP_PRIVATE);

	(void)state;
	after = read_now(fd);
	/* what was resident may be swapped out meanwhile */
	assert_true(after.private + after.swap >=
		    before.private + before.swap + MORE / 2);
	munmap(p, MORE);
	close(fd);
}

static void
test_what_two_have_is_shared(void **state)
{
	void *p = touched(MAP_SHARED);
	pid_t child = fork();
	int fd;

	(void)state;
	if (child == 0) {
		memset(p, 2, MORE);
		for (;;)
			pause();
	}
	fd = memory_open(child);
	assert_true(fd >= 0);
	while (read_now(fd).shared < MORE / 2)
		; /* until it has touched it */
	assert_true(read_now(fd).proportional < read_now(fd).resident);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_false(memory_read(fd, &(struct memory){0}));
	assert_int_equal(memory_open(child), -1);
	close(fd);
	munmap(p, MORE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_parts_are_the_whole),
		cmocka_unit_test(test_an_open_file_tells_what_is_new),
		cmocka_unit_test(test_what_two_have_is_shared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
