/* What the machine allows: the least work in C that still counts as passing a
 * message, naming an actor or keeping a timer, under the kernel scenarios.
 * One thread, but for many-to-one-8. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "../bench.h"

/* ---- actors, a run queue, messages from a free list -------------------- */

struct actor;

struct message {
	struct message *next;
	long number;
	long pad[6];
};

struct actor {
	void (*handle)(struct actor *a, struct message *m);
	struct actor *peer, *next_ready;
	struct message *head, *tail;
	char name[16], peer_name[16];
	bool ready;
};

enum { BUDGET = 64 };

static struct message *free_messages;
static struct actor *ready_head, **ready_tail = &ready_head;
static long n_handled, n_wanted;
static uint64_t random_state = 88172645463325252u;

static struct message *
message_new(void)
{
	struct message *m = free_messages;

	if (m)
		free_messages = m->next;
	else
		m = malloc(sizeof *m);
	return m;
}

static void
make_ready(struct actor *a)
{
	a->ready = true;
	a->next_ready = NULL;
	*ready_tail = a;
	ready_tail = &a->next_ready;
}

static inline void
deliver(struct actor *to, struct message *m)
{
	m->next = NULL;
	if (to->head)
		to->tail->next = m;
	else
		to->head = m;
	to->tail = m;
	if (!to->ready)
		make_ready(to);
}

static __attribute__((noinline)) void
run(void)
{
	while (ready_head) {
		struct actor *a = ready_head;
		struct message *m;

		ready_head = a->next_ready;
		if (!ready_head)
			ready_tail = &ready_head;
		a->ready = false;
		for (int budget = BUDGET; budget > 0 && a->head; budget--) {
			m = a->head;
			a->head = m->next;
			a->handle(a, m);
			m->next = free_messages;
			free_messages = m;
		}
		if (a->head && !a->ready)
			make_ready(a);
	}
}

/* ---- names: open addressing, the hash beside the pointer --------------- */

static struct slot {
	uint64_t hash;
	struct actor *actor;
} * slots;
static uint64_t slot_mask;

static inline uint64_t
hash(const char *s, size_t n)
{
	uint64_t h = 0x9e3779b97f4a7c15u ^ n, w;

	for (; n >= 8; n -= 8, s += 8) {
		memcpy(&w, s, 8);
		h = (h ^ w) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	if (n) {
		w = 0;
		memcpy(&w, s, n);
		h = (h ^ w) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	return h | 1;
}

static void
names_init(uint64_t n)
{
	for (slot_mask = 1; slot_mask < 2 * n;)
		slot_mask <<= 1;
	slots = calloc(slot_mask--, sizeof *slots);
}

static void
name_add(struct actor *a)
{
	uint64_t h = hash(a->name, strlen(a->name)), i = h & slot_mask;

	while (slots[i].hash)
		i = (i + 1) & slot_mask;
	slots[i] = (struct slot){h, a};
}

static inline struct actor *
name_find(const char *name, size_t size)
{
	uint64_t h = hash(name, size);

	for (uint64_t i = h & slot_mask; slots[i].hash; i = (i + 1) & slot_mask)
		if (slots[i].hash == h &&
			!memcmp(slots[i].actor->name, name, size + 1))
			return slots[i].actor;
	return NULL;
}

/* ---- scenarios --------------------------------------------------------- */

static bool
handled(struct actor *a, struct message *m, struct message **out)
{
	(void)a;
	if (m->number != n_handled) {
		fprintf(stderr, "limit: event %ld came instead of %ld\n",
			m->number, n_handled);
		exit(1);
	}
	if (++n_handled >= n_wanted)
		return false;
	*out = message_new();
	(*out)->number = n_handled;
	return true;
}

static void
to_peer(struct actor *a, struct message *m)
{
	struct message *out;

	if (handled(a, m, &out))
		deliver(a->peer, out);
}

static void
to_name(struct actor *a, struct message *m)
{
	struct message *out;

	if (handled(a, m, &out))
		deliver(name_find(a->peer_name, strlen(a->peer_name)), out);
}

enum { MANY_NAMES = 100000 };
static struct actor *many_actors;

static void
to_any_name(struct actor *a, struct message *m)
{
	struct message *out;
	const char *name;

	if (!handled(a, m, &out))
		return;
	name = many_actors[xorshift(&random_state) % MANY_NAMES].name;
	deliver(name_find(name, strlen(name)), out);
}

static void
time_events(const struct bench_case *c, struct actor *first)
{
	struct message *m = message_new();
	uint64_t start;

	n_handled = 0;
	n_wanted = c->n;
	m->number = 0;
	deliver(first, m);
	start = now_ns();
	run();
	start = now_ns() - start;
	if (n_handled != n_wanted)
		bench_fail(c, "%ld of %ld events handled", n_handled, n_wanted);
	bench_row(c, "ns_per_event", (double)start / (double)c->n, "ns");
}

static void
pingpong_id(const struct bench_case *c)
{
	struct actor ping = {.handle = to_peer}, pong = {.handle = to_peer};

	ping.peer = &pong;
	pong.peer = &ping;
	time_events(c, &ping);
}

static void
run_pingpong_alias(const struct bench_case *c)
{
	struct actor ping = {to_name, .name = "ping", .peer_name = "pong"};
	struct actor pong = {to_name, .name = "pong", .peer_name = "ping"};

	name_add(&ping);
	name_add(&pong);
	time_events(c, &ping);
}

static void
pingpong_alias(const struct bench_case *c)
{
	names_init(2);
	run_pingpong_alias(c);
}

static void
make_many(void)
{
	many_actors = calloc(MANY_NAMES, sizeof *many_actors);
	names_init(MANY_NAMES + 2);
	for (int i = 0; i < MANY_NAMES; i++) {
		many_actors[i].handle = i ? to_name : to_any_name;
		snprintf(many_actors[i].name, sizeof many_actors[i].name,
			"actor%d", i);
		strcpy(many_actors[i].peer_name, "actor0");
		name_add(&many_actors[i]);
	}
}

static void
pingpong_alias_100k(const struct bench_case *c)
{
	make_many();
	run_pingpong_alias(c);
}

static void
pingpong_random_100k(const struct bench_case *c)
{
	make_many();
	time_events(c, many_actors);
}

static void
ring_1(const struct bench_case *c)
{
	enum { N = 10000 };
	struct actor *a = calloc(N, sizeof *a);

	for (int i = 0; i < N; i++) {
		a[i].handle = to_peer;
		a[i].peer = &a[(i + 1) % N];
	}
	time_events(c, a);
}

static void
idle_session(const struct bench_case *c)
{
	long before = rss_bytes();

	make_many();
	bench_row(c, "bytes_per_session",
		(double)(rss_bytes() - before) / MANY_NAMES, "bytes");
}

/* Eight threads push to one list with an exchange each; one thread reads. */
struct post {
	_Atomic(struct post *) next;
	long sender, number;
};

enum { SENDERS = 8, EACH = 500000 };
static _Alignas(128) _Atomic(struct post *) post_tail;
static _Alignas(128) struct post post_stub, *post_head = &post_stub;
static struct post *post_pool;

static void *
sender_main(void *arg)
{
	long sender = (long)(intptr_t)arg;
	struct post *p = post_pool + sender * EACH, *before;

	for (long i = 0; i < EACH; i++, p++) {
		p->sender = sender;
		p->number = i;
		before = atomic_exchange(&post_tail, p);
		atomic_store_explicit(&before->next, p, memory_order_release);
	}
	return NULL;
}

static void
many_to_one(const struct bench_case *c)
{
	pthread_t threads[SENDERS];
	long expect[SENDERS] = {0};
	uint64_t start;

	post_pool = calloc((size_t)SENDERS * EACH, sizeof *post_pool);
	memset(post_pool, 0, (size_t)SENDERS * EACH * sizeof *post_pool);
	atomic_store(&post_tail, &post_stub);
	start = now_ns();
	for (intptr_t i = 0; i < SENDERS; i++)
		pthread_create(&threads[i], NULL, sender_main, (void *)i);
	for (long got = 0; got < (long)SENDERS * EACH;) {
		struct post *p = atomic_load_explicit(
			&post_head->next, memory_order_acquire);

		if (!p)
			continue;
		if (p->number != expect[p->sender]++)
			bench_fail(c, "an event is out of order");
		post_head = p;
		got++;
	}
	start = now_ns() - start;
	for (int i = 0; i < SENDERS; i++)
		pthread_join(threads[i], NULL);
	bench_row(c, "ns_per_event", (double)start / ((double)SENDERS * EACH),
		"ns");
}

int
main(int argc, char **argv)
{
	static const struct bench_case cases[] = {
		{"limit", "pingpong-id", pingpong_id, 20000000},
		{"limit", "pingpong-alias", pingpong_alias, 20000000},
		{"limit", "pingpong-alias-100k", pingpong_alias_100k, 20000000},
		{"limit", "pingpong-random-100k", pingpong_random_100k,
			5000000},
		{"limit", "ring-1", ring_1, 10000000},
		{"limit", "many-to-one-8", many_to_one, 0},
		{"limit", "idle-session", idle_session, 0},
		{0},
	};

	return bench_cases_main(argc, argv, cases);
}
