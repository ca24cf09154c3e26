/* What a role calls: the barrier, and messages made, counted and checked.
 * Each role is a process; what they share is struct bench. */
#include "common.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

enum { WARMUP_CALLS = 500, MARK_LAST = 1 };

struct msg_head {
	uint16_t prod, flags;
	uint32_t magic;
	uint64_t seq;
};
#define MAGIC 0x6d736731u

void
futex_wait(void *word, uint32_t old, long timeout_ns)
{
	struct timespec t = {.tv_sec = timeout_ns / 1000000000,
		.tv_nsec = timeout_ns % 1000000000};
	syscall(SYS_futex, word, FUTEX_WAIT, old, &t, NULL, 0);
}

void
futex_wake(void *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void
role_ready(struct role *r)
{
	struct bench *b = r->b;
	atomic_fetch_add(&b->ready, 1);
	futex_wake(&b->ready);
	while (!atomic_load(&b->go))
		futex_wait(&b->go, 0, 100000000);
}

static void
head_put(struct role *r, void *buf, int flags)
{
	struct msg_head h = {.prod = (uint16_t)r->idx,
		.flags = (uint16_t)flags,
		.magic = MAGIC,
		.seq = r->sent};
	memcpy(buf, &h, sizeof h);
}

static bool
time_over(struct role *r)
{
	return now_ns() >=
	       atomic_load_explicit(&r->b->t_end, memory_order_relaxed);
}

int
msg_next(struct role *r, void *buf)
{
	int flags = 0;
	if (r->t_last)
		return 0;
	if ((r->sent & 15) == 0) {
		if (r->sent == 0)
			r->t_first = now_ns();
		else if (time_over(r)) {
			flags = MARK_LAST;
			r->t_last = now_ns();
		}
	}
	head_put(r, buf, flags);
	r->sent++;
	return 1;
}

static void
seen_refresh(struct role *r)
{
	struct bench *b = r->b;
	uint64_t low = UINT64_MAX;
	for (int c = 0; c < b->ncons; c++) {
		uint64_t n = atomic_load(&b->rx[c][r->idx].n);
		if (n < low)
			low = n;
	}
	r->seen = low;
}

void
msg_wait(struct role *r)
{
	struct bench *b = r->b;
	if (!msg_full(r))
		return;
	seen_refresh(r);
	if (!msg_full(r))
		return;
	uint64_t want = r->sent - b->window / 2;
	for (;;) {
		uint32_t seq = atomic_load(&b->wake[r->idx].seq);
		atomic_store(&b->wake[r->idx].want, want);
		seen_refresh(r);
		if (r->seen >= want)
			break;
		/* The consumer may miss "want" in a rare race: hence
		 * the timeout. */
		futex_wait(&b->wake[r->idx].seq, seq, 2000000);
	}
	atomic_store(&b->wake[r->idx].want, 0);
}

int
msg_got(struct role *r, const void *buf, size_t len)
{
	struct bench *b = r->b;
	struct msg_head h;
	if (len != b->size)
		die("message of %zu bytes instead of %zu", len, b->size);
	memcpy(&h, buf, sizeof h);
	if (h.magic != MAGIC || h.prod >= MAX_PROD)
		die("damaged message");
	if (h.seq != r->expect[h.prod])
		die("producer %d: message %llu came instead of %llu", h.prod,
			(unsigned long long)h.seq,
			(unsigned long long)r->expect[h.prod]);
	r->expect[h.prod]++;
	r->got++;
	atomic_store_explicit(
		&b->rx[r->idx][h.prod].n, h.seq + 1, memory_order_release);
	if (atomic_load_explicit(&b->wake[h.prod].want, memory_order_relaxed) ==
		h.seq + 1) {
		atomic_fetch_add(&b->wake[h.prod].seq, 1);
		futex_wake(&b->wake[h.prod].seq);
	}
	if (h.flags & MARK_LAST) {
		if (++r->ends == b->nprod) {
			r->t_last = now_ns();
			return 1;
		}
	}
	return 0;
}

int
call_next(struct role *r, void *buf)
{
	if (r->sent == 0)
		r->t_first = now_ns();
	if (r->sent >= (uint64_t)(r->b->calls + WARMUP_CALLS) || time_over(r)) {
		r->t_last = now_ns();
		return 0;
	}
	head_put(r, buf, 0);
	r->sent++;
	r->stamp[0] = now_ns();
	return 1;
}

void
call_done(struct role *r)
{
	if (r->sent > WARMUP_CALLS)
		hist_add(&r->h, now_ns() - r->stamp[0]);
	r->got++;
}

int
post_next(struct role *r, void *buf)
{
	uint64_t t = now_ns();
	if (r->sent == 0)
		r->t_first = t;
	else if (t >= atomic_load_explicit(&r->b->t_end, memory_order_relaxed))
		return 0;
	head_put(r, buf, 0);
	r->stamp[r->sent % 4096] = t;
	r->sent++;
	return 1;
}

void
post_acked(struct role *r, unsigned n)
{
	uint64_t t = now_ns();
	for (; n > 0; n--) {
		CHECK(r->got < r->sent);
		hist_add(&r->h, t - r->stamp[r->got % 4096]);
		r->got++;
	}
	r->t_last = t;
}

void
settled_more(struct role *r, unsigned n)
{
	struct bench *b = r->b;

	r->got += n;
	atomic_store(&b->rx[0][0].n, r->got);
	atomic_fetch_add(&b->wake[0].seq, 1);
	futex_wake(&b->wake[0].seq);
}

unsigned
settled_wait(struct role *r)
{
	struct bench *b = r->b;
	uint32_t seq = atomic_load(&b->wake[0].seq);
	uint64_t n = atomic_load(&b->rx[0][0].n);

	if (n == r->got)
		futex_wait(&b->wake[0].seq, seq, 2000000);
	return (unsigned)(atomic_load(&b->rx[0][0].n) - r->got);
}
