#include "exec/baton.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum {
	SPINS = 200,        /* some microseconds, if there is another CPU */
	OFFER_NS = 1000000, /* a thread that was woken may be slow to come */
	NAP_NS = 200000,
};

#if defined(__SANITIZE_THREAD__)
/* ThreadSanitizer holds a signal back until its thread calls a function that it
 * knows to block: the daemon's signals may come to a thread that waits here. */
void
word_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ns)
{
	struct timespec nap = {.tv_nsec = NAP_NS};

	if (ns && ns < NAP_NS)
		nap.tv_nsec = (long)ns;
	if (atomic_load(word) == value)
		nanosleep(&nap, NULL);
}
#else
void
word_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ns)
{
	struct timespec span = {
		.tv_sec = (time_t)(ns / NS_PER_S),
		.tv_nsec = (long)(ns % NS_PER_S),
	};

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, ns ? &span : NULL,
		NULL, 0);
}
#endif

void
word_wake(_Atomic uint32_t *word, int n)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

void
baton_init(struct baton *b)
{
	atomic_init(&b->word, 0);
	atomic_init(&b->n_waiting, 0);
	atomic_init(&b->n_taken, 0);
	atomic_init(&b->offered, false);
}

void
baton_wake(struct baton *b)
{
	word_wake(&b->word, 1);
}

static bool
spin(struct baton *b)
{
	static _Atomic int n_cpus;
	int n = atomic_load_explicit(&n_cpus, memory_order_relaxed);

	if (!n) {
		n = get_nprocs();
		atomic_store_explicit(&n_cpus, n, memory_order_relaxed);
	}
	for (int i = 0; n > 1 && i < SPINS; i++) {
		if (!atomic_load_explicit(&b->word, memory_order_relaxed) &&
			baton_try(b))
			return true;
		word_pause();
	}
	return false;
}

void
baton_wait(struct baton *b)
{
	atomic_fetch_add_explicit(&b->n_waiting, 1, memory_order_relaxed);
	if (!spin(b))
		while (atomic_exchange_explicit(
			       &b->word, 2, memory_order_acquire) != 0)
			word_wait(&b->word, 2, 0);
	atomic_fetch_sub_explicit(&b->n_waiting, 1, memory_order_relaxed);
	atomic_fetch_add(&b->n_taken, 1);
	if (atomic_load(&b->offered))
		word_wake(&b->n_taken, 1);
}

void
baton_offer(struct baton *b)
{
	uint32_t n = atomic_load(&b->n_taken);

	/* Sequentially consistent: who takes it after the word was read below
	 * sees that it is to wake us. */
	atomic_store(&b->offered, true);
	baton_drop(b);
	if (atomic_load(&b->n_taken) == n)
		word_wait(&b->n_taken, n, OFFER_NS);
	atomic_store(&b->offered, false);
	baton_take(b);
}
