#pragma once
/* Baton: who holds it is a loop's thread, as far as the kernel is concerned.
 * A loop holds it while it turns and lets go of it while it sleeps, and now and
 * then when others wait; threads that run sessions take it for a moment at a
 * time. Any thread.
 *
 * A lock of one word: 0 free, 1 held, 2 held and waited for. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct baton {
	_Alignas(64) _Atomic uint32_t word;
	_Atomic uint32_t n_waiting;
	_Atomic uint32_t n_taken; /* by who waited; wraps */
	_Atomic bool offered;     /* baton_offer() looks at that */
};

void baton_init(struct baton *b);
void baton_wait(struct baton *b);
void baton_wake(struct baton *b);
/* Whoever waits takes it first, if that takes no longer than a moment. Held
 * before and after. */
void baton_offer(struct baton *b);

static inline bool
baton_try(struct baton *b)
{
	uint32_t free = 0;

	return atomic_compare_exchange_strong_explicit(
		&b->word, &free, 1, memory_order_acquire, memory_order_relaxed);
}

static inline void
baton_take(struct baton *b)
{
	if (!baton_try(b))
		baton_wait(b);
}

static inline void
baton_drop(struct baton *b)
{
	if (atomic_exchange_explicit(&b->word, 0, memory_order_release) == 2)
		baton_wake(b);
}

static inline bool
baton_is_wanted(struct baton *b)
{
	return atomic_load_explicit(&b->n_waiting, memory_order_relaxed) > 0;
}

/* ---- sleeping on a word, which pools do as well -------------------- */

/* Until woken, if *@word is @value; spurious returns are possible. @ns 0: for
 * as long as it takes. */
void word_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ns);
void word_wake(_Atomic uint32_t *word, int n);
/* For loops that wait for another CPU. */
static inline void
word_pause(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}
