/* The same by other means: `limit`, the least that switching stacks can be
 * (six registers pushed and popped, a jump, a free list); and what the C
 * library has: `setjmp`, on a stack that makecontext() made, and `ucontext`. */
#undef _FORTIFY_SOURCE /* jumping to another stack is what it forbids */
#include <setjmp.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "coro.h"

enum { STACK = 64 << 10, PAGE = 4096, LIVING = 10000 };

/* ---- stacks ------------------------------------------------------------ */

struct stack {
	struct stack *next;
	char *low;
	void *resume;
	ucontext_t context;
	jmp_buf jump;
	bool started;
};

static struct stack *free_stacks, *current;
static void *argument; /* of the operation; NULL: stop at once, again */

static struct stack *
stack_new(void)
{
	struct stack *s;
	char *at;

	at = mmap(NULL, STACK + PAGE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (at == MAP_FAILED || mprotect(at, PAGE, PROT_NONE)) {
		perror("coro_model: no stack");
		exit(1);
	}
	s = (struct stack *)(at + PAGE + STACK -
			     ((sizeof(*s) + 63) & ~(size_t)63));
	memset(s, 0, sizeof(*s));
	s->low = at + PAGE;
	return s;
}

static struct stack *
stack_take(void)
{
	struct stack *s = free_stacks;

	if (!s)
		return stack_new();
	free_stacks = s->next;
	return s;
}

static void
stack_give(struct stack *s)
{
	s->next = free_stacks;
	free_stacks = s;
}

/* ---- ucontext ---------------------------------------------------------- */

static ucontext_t main_context;

static void
context_main(void)
{
	for (;;) {
		if (argument)
			coro_operation(argument);
		swapcontext(&current->context, &main_context);
	}
}

static void
context_make(struct stack *s)
{
	getcontext(&s->context);
	s->context.uc_stack.ss_sp = s->low;
	s->context.uc_stack.ss_size = (size_t)((char *)s - s->low);
	s->context.uc_link = NULL;
	makecontext(&s->context, context_main, 0);
}

static void
context_run(void *arg)
{
	struct stack *s = stack_take();

	if (!s->started)
		context_make(s);
	s->started = true;
	argument = arg;
	current = s;
	swapcontext(&main_context, &s->context);
	stack_give(s);
}

static void
context_spin(long n)
{
	while (n-- > 0)
		context_run(NULL);
}

/* ---- setjmp ------------------------------------------------------------ */

static jmp_buf main_jump;

static void
jump_main(void)
{
	struct stack *s = current;

	if (!_setjmp(s->jump))
		swapcontext(&s->context, &main_context);
	for (;;) {
		if (argument)
			coro_operation(argument);
		if (!_setjmp(s->jump))
			_longjmp(main_jump, 1);
	}
}

static void
jump_start(struct stack *s)
{
	getcontext(&s->context);
	s->context.uc_stack.ss_sp = s->low;
	s->context.uc_stack.ss_size = (size_t)((char *)s - s->low);
	makecontext(&s->context, jump_main, 0);
	current = s;
	swapcontext(&main_context, &s->context);
	s->started = true;
}

static void
jump_run(void *arg)
{
	struct stack *s = stack_take();

	if (!s->started)
		jump_start(s);
	argument = arg;
	current = s;
	if (!_setjmp(main_jump))
		_longjmp(s->jump, 1);
	stack_give(current);
}

static void
jump_spin(long n)
{
	volatile long left = n;

	while (left-- > 0)
		jump_run(NULL);
}

/* ---- the limit --------------------------------------------------------- */

#if defined(__x86_64__)
void *limit_switch(void **save, void *to, void *pass);
void limit_entry(void);
void limit_body(void *arg);
__asm__(".text\n.globl limit_switch\n.type limit_switch,@function\n"
	"limit_switch:\n"
	"push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
	"mov %rsp,(%rdi)\nmov %rsi,%rsp\nmov %rdx,%rax\n"
	"pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\n"
	"pop %rcx\njmp *%rcx\n.size limit_switch,.-limit_switch\n"
	"limit_entry:\nmov %rax,%rdi\nxor %ebp,%ebp\ncall limit_body\nhlt\n");

static void *limit_main;

__attribute__((used)) void
limit_body(void *arg)
{
	for (;;) {
		struct stack *s = current;

		if (arg)
			coro_operation(arg);
		arg = limit_switch(&s->resume, limit_main, NULL);
	}
}

static void
limit_make(struct stack *s)
{
	void **sp = (void **)(((uintptr_t)s - 128) & ~(uintptr_t)63);

	*--sp = (void *)limit_entry;
	sp -= 6;
	memset(sp, 0, 6 * sizeof(*sp));
	s->resume = sp;
}

static void
limit_run(void *arg)
{
	struct stack *s = stack_take();

	if (!s->resume)
		limit_make(s);
	current = s;
	limit_switch(&limit_main, s->resume, arg);
	stack_give(s);
}

static void
limit_spin(long n)
{
	struct stack *s = stack_take();

	if (!s->resume)
		limit_make(s);
	current = s;
	while (n-- > 0)
		limit_switch(&limit_main, s->resume, NULL);
	stack_give(s);
}

static void
limit_cost(const struct bench_case *c)
{
	coro_cost(c, limit_run);
}

static void
limit_switches(const struct bench_case *c)
{
	coro_switches(c, limit_spin);
}

static void
limit_memory(const struct bench_case *c)
{
	long before = rss_bytes();

	for (int i = 0; i < LIVING; i++) {
		struct stack *s = stack_new();

		limit_make(s);
		current = s;
		limit_switch(&limit_main, s->resume, NULL);
	}
	bench_row(c, "rss_bytes", (double)(rss_bytes() - before) / LIVING,
		"bytes");
}
#endif

static void
jump_cost(const struct bench_case *c)
{
	coro_cost(c, jump_run);
}

static void
jump_switches(const struct bench_case *c)
{
	coro_switches(c, jump_spin);
}

static void
context_cost(const struct bench_case *c)
{
	coro_cost(c, context_run);
}

static void
context_switches(const struct bench_case *c)
{
	coro_switches(c, context_spin);
}

int
main(int argc, char **argv)
{
	static const struct bench_case cases[] = {
#if defined(__x86_64__)
		{"limit", "coroutine-1", limit_cost, 4000000},
		{"limit", "coroutine-30", limit_cost, 4000000},
		{"limit", "coroutine-switch", limit_switches, SWITCHES},
		{"limit", "coroutine-wait", limit_memory, 0},
#endif
		{"setjmp", "coroutine-1", jump_cost, 4000000},
		{"setjmp", "coroutine-30", jump_cost, 4000000},
		{"setjmp", "coroutine-switch", jump_switches, SWITCHES},
		{"ucontext", "coroutine-1", context_cost, 1000000},
		{"ucontext", "coroutine-30", context_cost, 1000000},
		{"ucontext", "coroutine-switch", context_switches,
			SWITCHES / 20},
		{0},
	};

	return bench_cases_main(argc, argv, cases);
}
