#pragma once
/* Switch: leave one stack for another. What a place keeps is the stack
 * pointer, the frame pointer and where to go on; all other registers that a
 * callee has to preserve are named as clobbered, so that the compiler saves
 * those that are in use and no more.
 *
 * It leaves by an indirect jump: a return would be foretold from the return
 * stack of the side just left, and miss every time. Where it lands there is
 * a landing pad, as branch protection (IBT, BTI) wants it. A shadow stack it
 * would leave behind; see coro_has_shadow_stack().
 *
 * Not kept: the modes of the floating-point unit and the signal mask. Any
 * thread. */
#include <stdbool.h>
#include <stdint.h>

struct coro_place {
	void *sp, *fp, *pc;
};

#if defined(__x86_64__) && !defined(EVD_CORO_UCONTEXT)
#define CORO_SWITCH 1

static inline __attribute__((always_inline)) void
coro_switch(struct coro_place *from, const struct coro_place *to)
{
	__asm__ volatile("lea 1f(%%rip), %%rax\n\t"
			 "mov %%rsp, 0(%0)\n\t"
			 "mov %%rbp, 8(%0)\n\t"
			 "mov %%rax, 16(%0)\n\t"
			 "mov 0(%1), %%rsp\n\t"
			 "mov 8(%1), %%rbp\n\t"
			 "jmp *16(%1)\n"
			 "1:\n\t"
			 "endbr64"
			 : "+D"(from), "+S"(to)
			 :
			 : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11",
			 "r12", "r13", "r14", "r15", "xmm0", "xmm1", "xmm2",
			 "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
			 "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15",
			 "memory", "cc");
}

/* Reads as 0 where there is none, and on processors that know of none. */
static inline bool
coro_has_shadow_stack(void)
{
	uint64_t ssp = 0;

	__asm__ volatile("rdsspq %0" : "+r"(ssp));
	return ssp != 0;
}

#elif defined(__aarch64__) && !defined(EVD_CORO_UCONTEXT)
#define CORO_SWITCH 1

static inline __attribute__((always_inline)) void
coro_switch(struct coro_place *from, const struct coro_place *to)
{
	register struct coro_place *x0 __asm__("x0") = from;
	register const struct coro_place *x1 __asm__("x1") = to;

	__asm__ volatile("adr x16, 1f\n\t"
			 "mov x17, sp\n\t"
			 "stp x17, x29, [x0]\n\t"
			 "str x16, [x0, #16]\n\t"
			 "ldp x17, x29, [x1]\n\t"
			 "ldr x16, [x1, #16]\n\t"
			 "mov sp, x17\n\t"
			 "mov x30, xzr\n\t"
			 "br x16\n"
			 "1:\n\t"
			 "hint #36" /* bti j */
			 : "+r"(x0), "+r"(x1)
			 :
			 : "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9",
			 "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17",
			 "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25",
			 "x26", "x27", "x28", "x30", "v0", "v1", "v2", "v3",
			 "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11",
			 "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19",
			 "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27",
			 "v28", "v29", "v30", "v31", "memory", "cc");
}

/* CHKFEAT clears the bit where guarded control stacks are in use. */
static inline bool
coro_has_shadow_stack(void)
{
	register uint64_t x16 __asm__("x16") = 1;

	__asm__ volatile("hint #40" : "+r"(x16));
	return x16 == 0;
}

#else
#define CORO_SWITCH 0

static inline void
coro_switch(struct coro_place *from, const struct coro_place *to)
{
	(void)from, (void)to;
}

static inline bool
coro_has_shadow_stack(void)
{
	return false;
}
#endif
