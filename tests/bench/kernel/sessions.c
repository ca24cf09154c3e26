/* The native sessions of the kernel scenarios: a plugin, loaded by the same
 * code as any other. Each scenario is one handler `go` of its first session,
 * called once; its reply tells what was measured, as lines "metric value
 * unit", or is an error when an event was lost, out of order or doubled.
 *
 * One loop's thread per session, as always. */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "eventd/plugin.h"
#include "eventd/status.h"

enum {
	ACTORS = 100000, /* of pingpong-random-100k */
	SENDERS = 8,     /* of many-to-one-8 */
	SEND_WINDOW = 4096,
	SEND_CREDIT = 1024,
	TIMERS = 1000000,
	TIMER_SIZE = 96, /* bytes, about */
	LATE_STEP_US = 10,
	LATE_BUCKETS = 200000,
};

struct event {
	uint64_t number; /* of this event, among those of its sender */
	uint64_t who;    /* sender or token */
};

struct state {
	const char *peer; /* alias of who is posted to */
	struct evd_target *target;
	uint32_t handler;
	char how;        /* first letter of the parameter `how` */
	uint64_t n;      /* events, or laps */
	uint64_t size;   /* ring: its sessions */
	uint64_t tokens; /* ring: in flight; drain: events a filling */
	uint64_t next;   /* number of the next event sent or expected */
	uint64_t done;
	uint64_t credit;
	uint64_t call; /* of go */
	uint64_t start_ns, cpu_ns;
	uint64_t drain_ns; /* when the emptying began */
	uint64_t *seen;    /* per sender or token: how many came */
	uint64_t random;
	uint64_t *timers;
	uint32_t *late; /* histogram, steps of LATE_STEP_US */
	double insert_ns, cancel_ns, timer_size;
};

/* ---- small things ------------------------------------------------------ */

static uint64_t
clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t
now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static uint64_t
random_next(struct state *s)
{
	s->random ^= s->random << 13;
	s->random ^= s->random >> 7;
	s->random ^= s->random << 17;
	return s->random;
}

static double
rss_bytes(void)
{
	long size, resident = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (!f)
		return 0;
	if (fscanf(f, "%ld %ld", &size, &resident) != 2)
		resident = 0;
	fclose(f);
	return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static uint64_t
param_number(struct evd_ctx *ctx, const char *key)
{
	const char *value = evd_ctx_param(ctx, key);

	return value ? strtoull(value, NULL, 10) : 0;
}

__attribute__((format(printf, 4, 5))) static int
answer(struct evd_ctx *ctx, struct state *s, int status, const char *format,
	...)
{
	char text[512];
	va_list args;
	int size;

	va_start(args, format);
	size = vsnprintf(text, sizeof text, format, args);
	va_end(args);
	return evd_ctx_reply(ctx, s->call, status, text, (size_t)size);
}

static int
broken(struct evd_ctx *ctx, struct state *s, uint64_t came, uint64_t wanted)
{
	answer(ctx, s, EVD_STATUS_HANDLER, "event %llu came instead of %llu",
		(unsigned long long)came, (unsigned long long)wanted);
	return -EBADMSG;
}

/* n events took from start_ns until now. */
static int
finish(struct evd_ctx *ctx, struct state *s, uint64_t n)
{
	double ns = (double)(now_ns() - s->start_ns);

	return answer(ctx, s, 0, "ns_per_event %.6g ns\n", ns / (double)n);
}

static struct event
event_of(const struct evd_message *m)
{
	struct event e = {0};

	if (m->size == sizeof e)
		memcpy(&e, m->data, sizeof e);
	return e;
}

/* By the reference that is resolved once. */
static int
post_ref(struct evd_ctx *ctx, struct state *s, const char *event,
	struct event *e)
{
	if (!s->target) {
		s->target = evd_ctx_resolve(ctx, s->peer);
		if (!s->target)
			return -EINVAL;
		s->handler = evd_ctx_handler(ctx, s->target, event);
	}
	return evd_ctx_post(ctx, s->target, s->handler, e, sizeof *e);
}

/* ---- pingpong-*: event k is handled by pong if k is even, else by ping --- */

__attribute__((noinline)) static int
post_random(struct evd_ctx *ctx, struct state *s, struct event *e)
{
	char alias[16];

	snprintf(alias, sizeof alias, "actor%05u",
		(unsigned)(random_next(s) % ACTORS));
	return evd_ctx_post_alias(ctx, alias, "event", e, sizeof *e);
}

static int
pingpong_post(
	struct evd_ctx *ctx, struct state *s, uint64_t from, uint64_t number)
{
	struct event e = {.number = number};

	if (s->how == 'i' && from)
		return evd_ctx_post_id(ctx, from, "event", &e, sizeof e);
	if (s->how == 'r')
		return post_ref(ctx, s, "event", &e);
	if (s->how != 'm')
		return evd_ctx_post_alias(ctx, s->peer, "event", &e, sizeof e);
	return post_random(ctx, s, &e);
}

static int
on_pingpong(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct state *s = state;

	(void)m;
	s->call = evd_ctx_defer(ctx);
	s->next = 1;
	s->start_ns = now_ns();
	return pingpong_post(ctx, s, 0, 0);
}

static int
on_event(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct state *s = state;
	uint64_t number = event_of(m).number;

	if (number != s->next)
		return broken(ctx, s, number, s->next);
	s->next += 2;
	if (number + 1 == s->n)
		return finish(ctx, s, s->n);
	return pingpong_post(ctx, s, m->from, number + 1);
}

/* One of the many: which events come here is chance. */
static int
on_event_any(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct state *s = state;
	struct event e = event_of(m);

	e.number++;
	return evd_ctx_post_alias(ctx, s->peer, "event", &e, sizeof e);
}

static int
on_event_either(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct state *s = state;

	return s->how == 'o' ? on_event_any(ctx, state, m)
			     : on_event(ctx, state, m);
}

/* ---- ring-*, budget-*: tokens go round a ring of sessions -------------- */

static int
on_ring(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct state *s = state;
	int r = 0;

	(void)m;
	s->call = evd_ctx_defer(ctx);
	s->seen = calloc(s->tokens, sizeof *s->seen);
	if (!s->seen)
		return -ENOMEM;
	s->start_ns = now_ns();
	for (uint64_t i = 0; i < s->tokens && !r; i++)
		r = post_ref(ctx, s, "token", &(struct event){1, i});
	return r;
}

/* The number says how often the token has been posted. */
static int
on_token(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct state *s = state;
	struct event e = event_of(m);
	uint64_t wanted;

	if (!s->call) {
		e.number++;
		return post_ref(ctx, s, "token", &e);
	}
	if (e.who >= s->tokens)
		return broken(ctx, s, e.who, s->tokens);
	wanted = ++s->seen[e.who] * s->size;
	if (e.number != wanted)
		return broken(ctx, s, e.number, wanted);
	if (s->seen[e.who] < s->n) {
		e.number++;
		return post_ref(ctx, s, "token", &e);
	}
	if (++s->done < s->tokens)
		return 0;
	return finish(ctx, s, s->tokens * s->n * s->size);
}

/* ---- many-to-one-8, drain-*: posts to a sink that checks their order --- */

static int
on_sink(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct state *s = state;

	(void)m;
	s->call = evd_ctx_defer(ctx);
	s->seen = calloc(SENDERS, sizeof *s->seen);
	if (!s->seen)
		return -ENOMEM;
	s->start_ns = now_ns();
	return evd_ctx_post_alias(ctx, s->peer, "fill", NULL, 0);
}

/* Filled and emptied, and what of that was the emptying. */
static int
finish_drain(struct evd_ctx *ctx, struct state *s)
{
	double ns = (double)(now_ns() - s->start_ns);

	s->cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - s->drain_ns;
	return answer(ctx, s, 0, "ns_per_event %.6g ns\ndrain_ns %.6g ns\n",
		ns / (double)s->n, (double)s->cpu_ns / (double)s->n);
}

static int
on_post(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct state *s = state;
	struct event e = event_of(m);

	if (e.who >= SENDERS || e.number != s->seen[e.who])
		return broken(ctx, s, e.number, s->seen[e.who % SENDERS]);
	s->seen[e.who]++;
	if (s->tokens && s->done % s->tokens == 0) /* all are queued */
		s->drain_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	if (++s->done == s->n)
		return s->tokens ? finish_drain(ctx, s) : finish(ctx, s, s->n);
	if (s->tokens && s->done % s->tokens == 0)
		s->cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - s->drain_ns;
	if (s->tokens && s->done % s->tokens == 0)
		return evd_ctx_post_alias(ctx, s->peer, "fill", NULL, 0);
	if (s->how == 'c' && s->seen[e.who] % SEND_CREDIT == 0)
		return evd_ctx_post_id(ctx, m->from, "credit", NULL, 0);
	return 0;
}

/* Post as much as the credit allows; of a drain, `tokens` events. */
static int
on_fill(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct state *s = state;
	int r = 0;

	(void)m;
	s->credit += s->tokens;
	for (; s->next < s->n && s->next < s->credit && !r; s->next++)
		r = post_ref(ctx, s, "post", &(struct event){s->next, s->size});
	return r;
}

static int
on_credit(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct state *s = state;

	s->credit += SEND_CREDIT;
	return on_fill(ctx, state, m);
}

/* Tells all senders; a session of its own so that the sink's go is one. */
static int
on_fill_all(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	char alias[16];
	int r = 0;

	(void)state, (void)m;
	for (int i = 0; i < SENDERS && !r; i++) {
		snprintf(alias, sizeof alias, "sender%d", i);
		r = evd_ctx_post_alias(ctx, alias, "fill", NULL, 0);
	}
	return r;
}

static int
on_fill_either(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct state *s = state;

	return s->how == 'a' ? on_fill_all(ctx, state, m)
			     : on_fill(ctx, state, m);
}

/* ---- timers-1m --------------------------------------------------------- */

static int
timers_set(struct evd_ctx *ctx, struct state *s, uint64_t from_ms,
	uint64_t span_ms)
{
	int r = 0;

	for (uint32_t i = 0; i < TIMERS && !r; i++)
		r = evd_ctx_delay(ctx, NULL, "tick", NULL, 0,
			from_ms + random_next(s) % span_ms, 0, &s->timers[i]);
	return r;
}

/* A virtual machine has its memory of a host, which takes some hundred ns for
 * the pages of a timer the first time that they are written to, whoever does:
 * that is not ours. What the system takes to give them to this process is. */
static int
host_gives(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return -ENOMEM;
	madvise(at, size, MADV_HUGEPAGE);
	memset(at, 0xff, size);
	munmap(at, size);
	return 0;
}

static void
shuffle(struct state *s)
{
	for (uint32_t i = TIMERS - 1; i > 0; i--) {
		uint32_t j = (uint32_t)(random_next(s) % (i + 1));
		uint64_t t = s->timers[i];

		s->timers[i] = s->timers[j];
		s->timers[j] = t;
	}
}

static int
on_timers(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct state *s = state;
	uint64_t start;
	double before;
	int r;

	(void)m;
	s->call = evd_ctx_defer(ctx);
	s->timers = malloc(TIMERS * sizeof *s->timers);
	s->late = calloc(LATE_BUCKETS, sizeof *s->late);
	if (!s->timers || !s->late)
		return -ENOMEM;
	memset(s->timers, 0xff, TIMERS * sizeof *s->timers); /* its pages */
	if (host_gives((size_t)TIMERS * 2 * TIMER_SIZE))
		return -ENOMEM;
	before = rss_bytes();
	start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	r = timers_set(ctx, s, 100000, 900000);
	s->insert_ns =
		(double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - start) / TIMERS;
	s->timer_size = (rss_bytes() - before) / TIMERS;
	shuffle(s);
	start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	for (uint32_t i = 0; i < TIMERS && !r; i++)
		r = evd_ctx_cancel(ctx, s->timers[i]);
	s->cancel_ns =
		(double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - start) / TIMERS;
	if (r)
		return r;
	r = timers_set(ctx, s, 1000, 4000);
	s->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	return r;
}

static uint32_t
late_p99_us(const struct state *s)
{
	uint32_t sum = 0, i = 0;

	while (i < LATE_BUCKETS - 1 && (sum += s->late[i]) < TIMERS / 100 * 99)
		i++;
	return (i + 1) * LATE_STEP_US;
}

static int
on_tick(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	struct state *s = state;
	uint64_t step = m->late_ns / (LATE_STEP_US * 1000);
	double fire_ns;

	s->late[step < LATE_BUCKETS ? step : LATE_BUCKETS - 1]++;
	if (++s->done < TIMERS)
		return 0;
	fire_ns = (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - s->cpu_ns);
	return answer(ctx, s, 0,
		"insert_ns %.6g ns\ncancel_ns %.6g ns\nfire_ns %.6g ns\n"
		"bytes_per_timer %.6g bytes\nlate_p99_us %u us\n",
		s->insert_ns, s->cancel_ns, fire_ns / TIMERS, s->timer_size,
		late_p99_us(s));
}

/* ---- the plugin -------------------------------------------------------- */

static int
start(struct evd_ctx *ctx, void **state)
{
	const char *how = evd_ctx_param(ctx, "how");
	struct state *s;

	if (how && strcmp(how, "none") == 0)
		return 0;
	s = calloc(1, sizeof *s);
	if (!s)
		return -ENOMEM;
	s->how = how ? how[0] : '\0';
	s->peer = evd_ctx_param(ctx, "peer");
	s->n = param_number(ctx, "n");
	s->size = param_number(ctx, "size");
	s->tokens = param_number(ctx, "tokens");
	s->credit = s->tokens ? 0 : SEND_WINDOW;
	s->random = 88172645463325252u;
	*state = s;
	return 0;
}

static void
stop(struct evd_ctx *ctx, void *state)
{
	struct state *s = state;

	(void)ctx;
	if (!s)
		return;
	free(s->seen);
	free(s->timers);
	free(s->late);
	free(s);
}

static const struct evd_handler handlers[] = {
	{"event", on_event_either},
	{"token", on_token},
	{"post", on_post},
	{"pingpong", on_pingpong},
	{"ring", on_ring},
	{"sink", on_sink},
	{"fill", on_fill_either},
	{"credit", on_credit},
	{"timers", on_timers},
	{"tick", on_tick},
};

EVD_PLUGIN_EXPORT const struct evd_plugin eventd_plugin;
EVD_PLUGIN_EXPORT const struct evd_plugin eventd_plugin = {
	.abi = EVD_PLUGIN_ABI,
	.size = sizeof eventd_plugin,
	.name = "bench",
	.handlers = handlers,
	.n_handlers = sizeof handlers / sizeof *handlers,
	.start = start,
	.stop = stop,
#ifdef WAITS
	.flags = EVD_PLUGIN_WAITS,
#endif
};
