#include "coro/fault.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/err.h"
#include "coro/contexts.h"
#include "coro/coro.h"
#include "coro/stacks.h"

enum { ALTERNATE_MIN = 32 << 10, WORDS_MAX = 512 };

/* The process's, as the handlers of signals are. */
static struct {
	const struct coro_fault_ops *ops; /* NULL: not set up */
	struct sigaction before;
} the;

static _Thread_local struct {
	void *stack; /* NULL: it has another's */
	size_t size;
} own __attribute__((tls_model("initial-exec")));

/* ---- last words -------------------------------------------------------- */

static size_t
add(char *text, size_t n, size_t size, const char *more)
{
	while (*more && n < size)
		text[n++] = *more++;
	return n;
}

void
coro_fault_say(const struct coro *co, const char *what)
{
	char text[WORDS_MAX];
	size_t n = add(text, 0, sizeof(text), "eventd: fatal: ");
	ssize_t written;

	if (the.ops && the.ops->describe)
		n += the.ops->describe(co, text + n, sizeof(text) - n);
	else
		n = add(text, n, sizeof(text), "a coroutine");
	n = add(text, n, sizeof(text) - 2, " ");
	n = add(text, n, sizeof(text) - 1, what);
	n = add(text, n, sizeof(text), "\n");
	written = write(STDERR_FILENO, text, n);
	(void)written;
}

/* ---- the handler ------------------------------------------------------- */

const void *
coro_fault_pc(const void *context)
{
	const ucontext_t *c = context;

#if defined(__x86_64__)
	return (const void *)c->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return (const void *)c->uc_mcontext.pc;
#else
	(void)c;
	return NULL;
#endif
}

/* Go on where coro_resume() was left, when the handler returns. */
static void
return_to(const struct coro_place *to, ucontext_t *c)
{
#if defined(__x86_64__)
	c->uc_mcontext.gregs[REG_RSP] = (greg_t)to->sp;
	c->uc_mcontext.gregs[REG_RBP] = (greg_t)to->fp;
	c->uc_mcontext.gregs[REG_RIP] = (greg_t)to->pc;
#elif defined(__aarch64__)
	c->uc_mcontext.sp = (uintptr_t)to->sp;
	c->uc_mcontext.regs[29] = (uintptr_t)to->fp;
	c->uc_mcontext.pc = (uintptr_t)to->pc;
#else
	(void)to, (void)c;
#endif
}

static void
leave(struct coro *co, ucontext_t *context)
{
	co->state = CORO_OVERFLOWED;
#if CORO_ASAN
	__sanitizer_start_switch_fiber(NULL, co->back_low, co->back_size);
	co->fake = NULL;
#elif CORO_TSAN
	__tsan_switch_to_fiber(co->back_fiber, 0);
#endif
	if (co->contexts)
		setcontext(&co->contexts->back);
	return_to(&co->back, context);
}

static void
on_fault(int sig, siginfo_t *info, void *context)
{
	struct coro *co = coro_running();
	bool is_fault = info->si_code > 0;
	bool overflowed = co && is_fault && stacks_is_gap(co, info->si_addr);
	int saved = errno;

	if (overflowed && the.ops->may_leave &&
		the.ops->may_leave(co, coro_fault_pc(context))) {
		errno = saved;
		leave(co, context);
		return;
	}
	if (overflowed)
		coro_fault_say(co,
			"overflowed its stack (CoroutineStack=) in a function "
			"that cannot be left");
	else if (co && is_fault)
		coro_fault_say(co, "accessed memory that it must not");
	sigaction(sig, &the.before, NULL); /* the instruction comes again */
	if (!is_fault)
		raise(sig);
	errno = saved;
}

int
coro_fault_init(const struct coro_fault_ops *ops)
{
	struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};

	if (the.ops)
		return the.ops == ops ? 0 : err_raise(-EBUSY);
	action.sa_sigaction = on_fault;
	sigemptyset(&action.sa_mask);
	the.ops = ops;
	if (sigaction(SIGSEGV, &action, &the.before) == 0)
		return 0;
	the.ops = NULL;
	return err_raise(-errno);
}

void
coro_fault_deinit(void)
{
	if (the.ops)
		sigaction(SIGSEGV, &the.before, NULL);
	the.ops = NULL;
}

/* ---- alternate stacks -------------------------------------------------- */

static size_t
alternate_size(void)
{
	long least = sysconf(_SC_MINSIGSTKSZ);

	return ALTERNATE_MIN + (least > 0 ? (size_t)least : 0);
}

int
coro_fault_thread_init(void)
{
	stack_t stack;

	if (own.stack)
		return 0;
	if (sigaltstack(NULL, &stack) == 0 && !(stack.ss_flags & SS_DISABLE))
		return 0; /* a sanitizer's is as good */
	own.size = alternate_size();
	own.stack = mmap(NULL, own.size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (own.stack == MAP_FAILED) {
		own.stack = NULL;
		return err_raise(-errno);
	}
	stack = (stack_t){.ss_sp = own.stack, .ss_size = own.size};
	return sigaltstack(&stack, NULL) ? err_raise(-errno) : 0;
}

void
coro_fault_thread_deinit(void)
{
	stack_t none = {.ss_flags = SS_DISABLE};

	if (!own.stack)
		return;
	sigaltstack(&none, NULL);
	munmap(own.stack, own.size);
	own.stack = NULL;
}
