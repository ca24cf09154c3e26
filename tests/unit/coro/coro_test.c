/* daemon/coro/: switching, stacks, guards, overflows. Every test runs with
 * each way to switch and to guard that the build and the kernel have. */
#include "coro/coro.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fault.h"
#include "coro/fault.h"
#include "coro/stacks.h"

enum {
	N_MANY = CORO_TSAN ? 40 : 2000, /* a fiber is a thread to TSan */
	KEEP = 8,
};

static bool may_leave_now;

static bool
may_leave(const struct coro *co, const void *pc)
{
	return may_leave_now && co && pc;
}

static size_t
describe(const struct coro *co, char *text, size_t size)
{
	static const char words[] = "the test's coroutine";

	(void)co;
	if (size > sizeof(words) - 1)
		size = sizeof(words) - 1;
	memcpy(text, words, size);
	return size;
}

static const struct coro_fault_ops fault_ops = {may_leave, describe};

/* How the tests of a group are run. */
static const struct coro_settings plain = {.keep = KEEP};
static const struct coro_settings contexts = {.keep = KEEP, .contexts = true};
static const struct coro_settings protect = {
	.keep = KEEP, .guard = CORO_GUARD_PROTECT};
static const struct coro_settings marked = {
	.keep = KEEP, .guard = CORO_GUARD_MARK};

static int
setup(void **state)
{
	const struct coro_settings *settings = *state;

	coro_thread_deinit();
	assert_int_equal(coro_trim(), 0);
	assert_int_equal(coro_setup(settings), 0);
	may_leave_now = true;
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	coro_thread_deinit();
	coro_fault_deinit();
	assert_int_equal(coro_trim(), 0);
	return 0;
}

/* ---- running ----------------------------------------------------------- */

struct count {
	int n, waits;
};

static void
count_up(struct coro *co, void *arg)
{
	struct count *c = arg;
	int own = 0;

	for (int i = 0; i < c->waits; i++) {
		c->n++;
		own++;
		coro_wait(co);
		assert_int_equal(own, i + 1);
	}
	c->n++;
}

static void
test_it_waits_and_goes_on_where_it_was(void **state)
{
	struct count c = {0, 3};
	struct coro *co = coro_new(count_up, &c);

	(void)state;
	assert_non_null(co);
	assert_int_equal(c.n, 0);
	for (int i = 1; i <= 3; i++) {
		assert_int_equal(coro_resume(co), CORO_WAITS);
		assert_int_equal(c.n, i);
	}
	assert_int_equal(coro_resume(co), CORO_ENDED);
	assert_int_equal(c.n, 4);
	assert_null(coro_free(co));
	assert_null(coro_free(NULL));
}

static void
test_a_stack_is_used_again(void **state)
{
	struct count c = {0, 0};
	struct coro *first = NULL;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		struct coro *co = coro_new(count_up, &c);

		assert_true(!first || first == co);
		first = co;
		assert_int_equal(coro_resume(co), CORO_ENDED);
		coro_free(co);
	}
	assert_int_equal(c.n, 1000);
}

static void
test_one_that_waits_can_be_given_up(void **state)
{
	struct count c = {0, 2};

	(void)state;
	for (int i = 0; i < 10; i++) {
		struct coro *co = coro_new(count_up, &c);

		assert_int_equal(coro_resume(co), CORO_WAITS);
		coro_free(co);
	}
	assert_int_equal(c.n, 10);
}

static void
test_one_that_never_ran_can_be_given_up(void **state)
{
	struct count c = {0, 2};

	(void)state;
	coro_free(coro_new(count_up, &c));
	coro_free(coro_new(count_up, &c));
	assert_int_equal(c.n, 0);
}

static void
run_inner(struct coro *co, void *arg)
{
	struct count *c = arg;
	struct coro *inner = coro_new(count_up, c);

	assert_ptr_equal(coro_running(), co);
	while (coro_resume(inner) == CORO_WAITS) {
		assert_ptr_equal(coro_running(), co);
		coro_wait(co);
	}
	coro_free(inner);
}

static void
test_runs_nest(void **state)
{
	struct count c = {0, 5};
	struct coro *co = coro_new(run_inner, &c);
	int n = 0;

	(void)state;
	assert_null(coro_running());
	while (coro_resume(co) == CORO_WAITS) {
		assert_null(coro_running());
		n++;
	}
	assert_int_equal(n, 5);
	assert_int_equal(c.n, 6);
	coro_free(co);
}

/* Far more than the stack of a coroutine has. */
static __attribute__((noinline)) void
eat(struct coro *co, void *arg)
{
	volatile char much[CORO_STACK_SIZE * 2];

	(void)co;
	for (size_t i = 0; i < sizeof(much); i += 64)
		much[i] = 1;
	*(int *)arg += much[64];
	assert_null(coro_running());
}

static void
eat_outside(struct coro *co, void *arg)
{
	for (int i = 0; i < 3; i++)
		coro_outside(co, eat, arg);
	coro_wait(co);
	coro_outside(co, eat, arg);
}

static void
test_what_needs_room_runs_outside(void **state)
{
	int n = 0;
	struct coro *co = coro_new(eat_outside, &n);

	(void)state;
	assert_int_equal(coro_resume(co), CORO_WAITS);
	assert_int_equal(n, 3);
	assert_int_equal(coro_resume(co), CORO_ENDED);
	assert_int_equal(n, 4);
	coro_free(co);
}

/* Enough values that some live in registers which a callee preserves. */
static void
mix(struct coro *co, void *arg)
{
	uint64_t *in = arg, a = in[0], b = in[1], c = in[2], d = in[3],
		 e = in[4], f = in[5];
	double x = (double)a, y = (double)b;

	for (int i = 0; i < 100; i++) {
		a += b ^ c;
		b += c ^ d;
		c += d ^ e;
		d += e ^ f;
		e += f ^ a;
		f += a ^ b;
		x = x * 0.5 + 1;
		y = y * 0.25 + x;
		if (co)
			coro_wait(co);
	}
	in[6] = a ^ b ^ c ^ d ^ e ^ f;
	in[7] = (uint64_t)(x * 1e6) ^ (uint64_t)(y * 1e6);
}

static void
test_registers_are_kept_on_both_sides(void **state)
{
	uint64_t plain_in[8] = {1, 2, 3, 4, 5, 6}, in[2][8];
	struct coro *co[2];
	int n = 0;

	(void)state;
	mix(NULL, plain_in);
	for (int i = 0; i < 2; i++) {
		memcpy(in[i], plain_in, sizeof(in[i]));
		in[i][6] = in[i][7] = 0;
		co[i] = coro_new(mix, in[i]);
	}
	for (int i = 0; i < 100; i++)
		n += coro_resume(co[0]) + coro_resume(co[1]);
	assert_int_equal(n, 200 * CORO_WAITS);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(coro_resume(co[i]), CORO_ENDED);
		assert_memory_equal(in[i], plain_in, sizeof(plain_in));
		coro_free(co[i]);
	}
}

/* Stack alignment: the compiler may use instructions that insist on it. */
static void
align(struct coro *co, void *arg)
{
	_Alignas(16) volatile char place[16];

	(void)co;
	place[0] = 0;
	*(uintptr_t *)arg = (uintptr_t)place % 16 + (uintptr_t)place[0];
}

static void
test_stacks_are_aligned(void **state)
{
	struct coro *co[20];
	uintptr_t odd = 1;

	(void)state;
	for (int i = 0; i < 20; i++) {
		co[i] = coro_new(align, &odd);
		assert_int_equal(coro_resume(co[i]), CORO_ENDED);
		assert_int_equal(odd, 0);
	}
	for (int i = 0; i < 20; i++)
		coro_free(co[i]);
}

/* ---- threads ----------------------------------------------------------- */

static void *
resume_once(void *arg)
{
	assert_int_equal(coro_resume(arg), CORO_WAITS);
	coro_thread_deinit();
	return NULL;
}

static void *
resume_to_end(void *arg)
{
	while (coro_resume(arg) == CORO_WAITS)
		;
	coro_free(arg);
	coro_thread_deinit();
	return NULL;
}

static void
on_thread(void *(*fn)(void *), void *arg)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, fn, arg), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void
test_it_goes_on_on_another_thread(void **state)
{
	struct count c = {0, 4};
	struct coro *co = coro_new(count_up, &c);

	(void)state;
	assert_int_equal(coro_resume(co), CORO_WAITS);
	on_thread(resume_once, co);
	assert_int_equal(coro_resume(co), CORO_WAITS);
	on_thread(resume_to_end, co);
	assert_int_equal(c.n, 5);
}

static void *
make_and_drop(void *arg)
{
	enum { AT_ONCE = CORO_TSAN ? 5 : 100 };
	struct coro *co[AT_ONCE];
	struct count c = {0, 1};

	(void)arg;
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < AT_ONCE; i++) {
			co[i] = coro_new(count_up, &c);
			assert_int_equal(coro_resume(co[i]), CORO_WAITS);
		}
		for (int i = 0; i < AT_ONCE; i++) {
			assert_int_equal(coro_resume(co[i]), CORO_ENDED);
			coro_free(co[i]);
		}
	}
	assert_int_equal(c.n, 20 * AT_ONCE * 2);
	coro_thread_deinit();
	return NULL;
}

static void
test_threads_share_the_store(void **state)
{
	pthread_t threads[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, make_and_drop, NULL),
			0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* ---- memory ------------------------------------------------------------ */

static void
wait_once(struct coro *co, void *arg)
{
	++*(int *)arg;
	coro_wait(co);
	--*(int *)arg;
}

/* Pages of [low, top) that are there. */
static unsigned
resident(const struct coro *co)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n;
	unsigned char there[CORO_STACK_SIZE / 4096 + 1];
	unsigned found = 0;

	n = ((size_t)(stacks_top(co) - co->low) + page - 1) / page;
	assert_int_equal(mincore(co->low, n * page, there), 0);
	for (size_t i = 0; i < n; i++)
		found += there[i] & 1;
	return found;
}

/* Of a stack that one waits on: the saved contexts of an aarch64 alone take
 * two more. */
static unsigned
pages_of(const struct coro *co)
{
	return co->contexts ? 1 + 2 * sizeof(ucontext_t) / 4096 : 1;
}

static void
test_many_wait_at_once_on_a_page_each(void **state)
{
	struct coro **co = calloc(N_MANY, sizeof(struct coro *));
	struct coro_stacks stacks;
	int waiting = 0;

	(void)state;
	for (int i = 0; i < N_MANY; i++) {
		co[i] = coro_new(wait_once, &waiting);
		assert_int_equal(coro_resume(co[i]), CORO_WAITS);
		if (!CORO_ASAN && !CORO_TSAN)
			assert_true(resident(co[i]) <= pages_of(co[i]));
	}
	assert_int_equal(waiting, N_MANY);
	coro_stacks(&stacks);
	assert_true(stacks.n >= N_MANY && stacks.n < N_MANY + CORO_SLAB);
	assert_true(CORO_ASAN || CORO_TSAN || stacks.size / stacks.n <= 256);
	for (int i = 0; i < N_MANY; i++) {
		assert_int_equal(coro_resume(co[i]), CORO_ENDED);
		coro_free(co[i]);
	}
	free(co);
	assert_int_equal(waiting, 0);
}

static void
test_memory_above_the_mark_goes_back(void **state)
{
	struct coro **co = calloc(N_MANY, sizeof(struct coro *));
	struct coro_stacks stacks;
	int waiting = 0;

	for (int i = 0; i < N_MANY; i++) {
		co[i] = coro_new(wait_once, &waiting);
		coro_resume(co[i]);
	}
	for (int i = 0; i < N_MANY; i++) {
		coro_resume(co[i]);
		coro_free(co[i]);
	}
	free(co);
	coro_thread_deinit();
	coro_stacks(&stacks);
	assert_true(stacks.n_free <= KEEP);
	assert_true(stacks.n <= 10 * CORO_SLAB);
	test_it_waits_and_goes_on_where_it_was(state);
}

static void
test_no_memory_is_said(void **state)
{
	struct count c = {0, 0};

	(void)state;
	fault_arm("coro_slab", 1);
	assert_null(coro_new(count_up, &c));
	fault_arm("coro_map", 1);
	assert_null(coro_new(count_up, &c));
	test_it_waits_and_goes_on_where_it_was(state);
}

static void
test_settings_are_for_the_beginning(void **state)
{
	struct coro_settings other = {.stack_size = 100001, .keep = 1};
	struct coro_stacks stacks;
	struct count c = {0, 0};
	struct coro *co = coro_new(count_up, &c);

	(void)state;
	assert_int_equal(coro_setup(&other), -EBUSY);
	coro_free(co);
	coro_thread_deinit();
	assert_int_equal(coro_trim(), 0);
	assert_int_equal(coro_setup(&other), 0);
	coro_stacks(&stacks);
	assert_true(stacks.stack_size >= 100001 &&
		    stacks.stack_size % (size_t)sysconf(_SC_PAGESIZE) == 0);
}

static void
test_guards_are_as_asked_for(void **state)
{
	const struct coro_settings *settings = *state;
	struct coro_stacks stacks;
	struct count c = {0, 0};
	struct coro *co = coro_new(count_up, &c);

	coro_stacks(&stacks);
	assert_true(stacks.guard >= settings->guard &&
		    stacks.guard != CORO_GUARD_AUTO);
	assert_true(co->is_guarded != co->is_checked);
	assert_int_equal(co->is_checked, stacks.guard == CORO_GUARD_MARK);
	assert_int_equal(stacks.n_unguarded, co->is_checked ? CORO_SLAB : 0);
	assert_true(!settings->contexts || co->contexts);
	coro_free(co);
}

static void
test_guards_that_split_mappings_are_counted(void **state)
{
	struct coro_settings few = {.keep = KEEP,
		.guard = CORO_GUARD_PROTECT,
		.max_guarded = CORO_SLAB};
	struct coro *co[CORO_SLAB + 1];
	struct count c = {0, 0};

	(void)state;
	assert_int_equal(coro_setup(&few), 0);
	for (int i = 0; i <= CORO_SLAB; i++) {
		co[i] = coro_new(count_up, &c);
		assert_int_equal(co[i]->is_guarded, i < CORO_SLAB);
	}
	for (int i = 0; i <= CORO_SLAB; i++)
		coro_free(co[i]);
}

/* ---- overflows --------------------------------------------------------- */

static __attribute__((noinline)) int
recurse(volatile char *above, int n)
{
	volatile char here[256];

	here[0] = (char)n;
	here[255] = above ? above[0] : 0;
	return n > 1000000 ? 0 : recurse(here, n + 1) + here[0] + here[255];
}

static void
overflow(struct coro *co, void *arg)
{
	(void)co;
	*(int *)arg = recurse(NULL, 0);
}

/* cmocka has put its own handlers in place of ours. */
static void
handle_faults(void)
{
	coro_fault_deinit();
	assert_int_equal(coro_fault_init(&fault_ops), 0);
}

static void
skip_unless_guarded(void)
{
	int n = 0;
	struct coro *co = coro_new(wait_once, &n);
	bool guarded = co->is_guarded;

	coro_free(co);
	if (!guarded)
		skip();
	handle_faults();
}

static void
test_an_overflow_ends_the_coroutine_alone(void **state)
{
	int n = 0;

	skip_unless_guarded();
	for (int i = 0; i < 3; i++) {
		struct coro *co = coro_new(overflow, &n);

		assert_int_equal(coro_resume(co), CORO_OVERFLOWED);
		assert_null(coro_running());
		coro_free(co);
	}
	test_it_waits_and_goes_on_where_it_was(state);
}

static void
overflow_inside(struct coro *co, void *arg)
{
	struct coro *inner = coro_new(overflow, arg);

	assert_int_equal(coro_resume(inner), CORO_OVERFLOWED);
	assert_ptr_equal(coro_running(), co);
	coro_free(inner);
	coro_wait(co);
}

static void
test_an_inner_overflow_is_the_inner_ones(void **state)
{
	int n = 0;
	struct coro *co;

	(void)state;
	skip_unless_guarded();
	co = coro_new(overflow_inside, &n);
	assert_int_equal(coro_resume(co), CORO_WAITS);
	assert_int_equal(coro_resume(co), CORO_ENDED);
	coro_free(co);
}

/* What a child process says on standard error before it dies of a signal. */
static void
expect_death(coro_fn fn, const char *words)
{
	char said[4096];
	size_t size = 0;
	ssize_t got;
	int fds[2], status;
	pid_t child;

	if (CORO_TSAN)
		skip(); /* a child of fork() gets no signal there */
	assert_int_equal(pipe(fds), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		int n = 0;
		struct coro *co = coro_new(fn, &n);

		dup2(fds[1], STDERR_FILENO);
		signal(SIGABRT, SIG_DFL); /* cmocka's would jump */
		coro_resume(co);
		_exit(0);
	}
	close(fds[1]);
	while (size < sizeof(said) - 1 &&
		(got = read(fds[0], said + size, sizeof(said) - 1 - size)) > 0)
		size += (size_t)got;
	said[size] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
	assert_non_null(strstr(said, "the test's coroutine"));
	assert_non_null(strstr(said, words));
}

static void
test_an_overflow_that_cannot_be_left_says_who(void **state)
{
	(void)state;
	skip_unless_guarded();
	may_leave_now = false;
	expect_death(overflow, "overflowed its stack (CoroutineStack=)");
}

static void
touch_nothing(struct coro *co, void *arg)
{
	(void)co, (void)arg;
	*(volatile int *)sysconf(_SC_PAGESIZE) = 1;
}

static void
test_another_fault_says_who(void **state)
{
	(void)state;
	if (CORO_ASAN)
		skip(); /* it looks at the pointer first */
	handle_faults();
	expect_death(touch_nothing, "accessed memory that it must not");
}

/* Down to the mark, and no farther than that. */
static void
overwrite_mark(struct coro *co, void *arg)
{
	(void)arg;
	memset(co->low - CORO_GAP - CORO_MARK_SIZE, 0, 1);
}

static void
test_an_overwritten_mark_ends_the_process(void **state)
{
	const struct coro_settings *settings = *state;

	if (settings->guard != CORO_GUARD_MARK)
		skip();
	handle_faults();
	expect_death(overwrite_mark, "which has no guard");
}

#define TEST(name, settings)                                     \
	{                                                        \
#name " (" #settings ")", name, setup, teardown, \
			(void *)(uintptr_t) & (settings)         \
	}
#define TESTS(s)                                                        \
	TEST(test_it_waits_and_goes_on_where_it_was, s),                \
		TEST(test_a_stack_is_used_again, s),                    \
		TEST(test_one_that_waits_can_be_given_up, s),           \
		TEST(test_one_that_never_ran_can_be_given_up, s),       \
		TEST(test_runs_nest, s),                                \
		TEST(test_what_needs_room_runs_outside, s),             \
		TEST(test_registers_are_kept_on_both_sides, s),         \
		TEST(test_stacks_are_aligned, s),                       \
		TEST(test_it_goes_on_on_another_thread, s),             \
		TEST(test_threads_share_the_store, s),                  \
		TEST(test_many_wait_at_once_on_a_page_each, s),         \
		TEST(test_memory_above_the_mark_goes_back, s),          \
		TEST(test_no_memory_is_said, s),                        \
		TEST(test_settings_are_for_the_beginning, s),           \
		TEST(test_guards_are_as_asked_for, s),                  \
		TEST(test_guards_that_split_mappings_are_counted, s),   \
		TEST(test_an_overflow_ends_the_coroutine_alone, s),     \
		TEST(test_an_inner_overflow_is_the_inner_ones, s),      \
		TEST(test_an_overflow_that_cannot_be_left_says_who, s), \
		TEST(test_another_fault_says_who, s),                   \
		TEST(test_an_overwritten_mark_ends_the_process, s)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TESTS(plain), TESTS(contexts), TESTS(protect), TESTS(marked)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
