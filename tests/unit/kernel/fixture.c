/* Schedulers stepped by hand and scripted sessions. One thread. */
#include "fixture.h"
#include "kernel/gate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/queue.h"

/* ---- the kind -------------------------------------------------------- */

static void trace(struct fake *fake, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Words that have no room any more are left out: counters tell of the rest. */
static void
trace(struct fake *fake, const char *format, ...)
{
	size_t used = strlen(fake->trace);
	va_list args;

	if (used && used + 1 < sizeof(fake->trace)) {
		fake->trace[used++] = ' ';
		fake->trace[used] = 0;
	}
	va_start(args, format);
	vsnprintf(fake->trace + used, sizeof(fake->trace) - used, format, args);
	va_end(args);
}

const char *
fixture_word(int status)
{
	static const char *const words[] = {
#define WORD(name, code, word, err, exit, text) [code] = (word),
		EVD_STATUS_TABLE(WORD)
#undef WORD
	};

	assert_in_range(status, 0, sizeof(words) / sizeof(words[0]) - 1);
	return words[status];
}

static enum session_result
on_start(struct session *s)
{
	struct fake *fake = s->state;

	fake->session = s;
	fake->id = s->id;
	assert_false(fake->alive);
	fake->alive = true;
	fake->n_started++;
	trace(fake, "start");
	return fake->on_start ? fake->on_start(fake) : SESSION_DONE;
}

static enum session_result
on_run(struct session *s, struct msg *m)
{
	struct fake *fake = s->state;

	enum session_result result = SESSION_DONE;

	away_enter();
	assert_true(fake->alive);
	fake->n_run++;
	trace(fake, "%s", m->event);
	if (fake->on_run)
		result = fake->on_run(fake, m);
	away_leave();
	return result;
}

static void
on_reply(struct session *s, uint64_t token, struct msg *reply)
{
	struct fake *fake = s->state;

	away_pin();
	assert_true(fake->alive);
	fake->n_replies++;
	trace(fake, "reply%" PRIu64 "=%s:%.*s", token,
		fixture_word((int)msg_status(reply)), (int)reply->size,
		(const char *)reply->data);
	if (fake->on_reply)
		fake->on_reply(fake, token, reply);
}

static void
on_answer(struct session *s, uint64_t token, int status, const void *data,
	uint32_t size)
{
	struct fake *fake = s->state;

	assert_true(fake->alive);
	fake->n_replies++;
	trace(fake, "reply%" PRIu64 "=%s:%.*s", token, fixture_word(status),
		(int)size, (const char *)data);
	if (fake->on_reply)
		fake->on_reply(fake, token, NULL);
}

static void
on_settled(struct session *s, uint64_t seq, uint32_t size, int status,
	const char *text)
{
	struct fake *fake = s->state;

	(void)size;
	assert_true(fake->alive);
	assert_true(status || !text);
	fake->n_settled++;
	if (status && fake->texts)
		trace(fake, "settled%" PRIu64 "=%s:%s", seq,
			fixture_word(status), text ? text : "");
	else
		trace(fake, "settled%" PRIu64 "=%s", seq, fixture_word(status));
	if (fake->on_settled)
		fake->on_settled(fake, seq, status);
}

static void
on_stop(struct session *s, bool crashed)
{
	struct fake *fake = s->state;

	assert_true(fake->alive);
	trace(fake, crashed ? "crash" : "stop");
	if (fake->on_stop)
		fake->on_stop(fake);
	fake->alive = false;
	fake->n_stopped++;
}

static bool
on_cancelled(struct session *s, uint64_t call)
{
	struct fake *fake = s->state;

	if (!fake->on_cancelled || !fake->on_cancelled(fake, call))
		return false;
	trace(fake, "cancelled");
	return true;
}

static size_t
on_memory(const struct session *s)
{
	(void)s;
	return sizeof(struct fake);
}

const struct session_ops fake_ops = {
	.kind = "fake",
	.start = on_start,
	.run = on_run,
	.reply = on_reply,
	.settled = on_settled,
	.stop = on_stop,
	.memory = on_memory,
	.cancelled = on_cancelled,
	.goes_away = true,
};

const struct session_ops fake_inline_ops = {
	.kind = "fake-inline",
	.start = on_start,
	.run = on_run,
	.reply = on_reply,
	.answer = on_answer, /* on_reply() of the fake without a message */
	.settled = on_settled,
	.stop = on_stop,
	.memory = on_memory,
};

enum session_result
fake_wait(struct fake *fake, struct msg *m)
{
	fake->held[fake->n_held++] = m;
	return SESSION_WAIT;
}

enum session_result
fake_lease(struct fake *fake, struct msg *m)
{
	fake->held[fake->n_held++] = m;
	return SESSION_LEASED;
}

enum session_result
fake_hold(struct fake *fake, struct msg *m)
{
	(void)fake, (void)m;
	return SESSION_HELD;
}

enum session_result
fake_crash(struct fake *fake, struct msg *m)
{
	session_fail(fake->session, "cannot handle '%s'", m->event);
	return SESSION_CRASHED;
}

void
fake_done(struct fake *fake, int status)
{
	struct msg *m = fake->held[0];

	assert_true(fake->n_held > 0);
	fake->n_held--;
	memmove(fake->held, fake->held + 1, fake->n_held * sizeof(m));
	session_done(fake->session, m, status);
}

/* ---- schedulers ------------------------------------------------------ */

static void
on_wake(struct sched *s)
{
	struct fixture *f = s->executor_data;

	f->n_wakes++;
}

static const struct executor_ops inline_ops = {
	.name = "inline", .wake = on_wake};

static void
on_hand(struct executor *x, struct away *a)
{
	struct fixture *f = container_of(x, struct fixture, executor);

	assert_true(away_is_out(a->session));
	f->out[f->n_out++] = a;
}

static const struct executor_ops hand_ops = {.name = "fake", .hand = on_hand};

void
fixture_run_away(struct fixture *f, unsigned i)
{
	struct away *a = f->out[i];

	memmove(f->out + i, f->out + i + 1,
		(--f->n_out - i) * sizeof(struct away *));
	away_run(a);
}

struct fixture *
fixture_new(unsigned n_scheds, const struct kernel_limits *limits)
{
	/* The inbox stands on a cache line of its own. */
	size_t size = (sizeof(struct fixture) + 63) & ~(size_t)63;
	struct fixture *f = aligned_alloc(64, size);

	assert_non_null(f);
	memset(f, 0, size);
	clock_fake_init(&f->clock);
	assert_int_equal(kernel_init(&f->kernel,
				 limits ? limits : &kernel_limits_default,
				 &f->clock.source),
		0);
	f->n_scheds = n_scheds;
	f->executor.ops = &hand_ops;
	f->executor.name = "fake";
	for (unsigned i = 0; i < n_scheds; i++)
		assert_int_equal(sched_init(&f->scheds[i], &f->kernel, i,
					 &inline_ops, f),
			0);
	return f;
}

void
fixture_free(struct fixture *f)
{
	fixture_check(f);
	for (unsigned i = 0; i < f->n_scheds; i++)
		sched_deinit(&f->scheds[i]);
	assert_int_equal(f->kernel.sessions.n, 0);
	kernel_deinit(&f->kernel);
	for (unsigned i = 0; i < f->n_fakes; i++) {
		assert_false(f->fakes[i]->alive);
		free(f->fakes[i]);
	}
	free(f);
}

int
fixture_setup(void **state)
{
	*state = fixture_new(1, NULL);
	return 0;
}

int
fixture_setup_two(void **state)
{
	*state = fixture_new(2, NULL);
	return 0;
}

int
fixture_teardown(void **state)
{
	fixture_free(*state);
	return 0;
}

bool
fixture_turn(struct fixture *f)
{
	bool more = false;

	for (unsigned i = 0; i < f->n_scheds; i++)
		more |= sched_turn(&f->scheds[i]);
	while (f->n_out && !f->lazy)
		fixture_run_away(f, 0);
	for (unsigned i = 0; i < f->n_scheds; i++) {
		struct sched *s = &f->scheds[i];

		more |= s->inbox || s->run_head ||
			sched_next_ns(s) <= s->now_ns;
	}
	return more;
}

void
fixture_run(struct fixture *f)
{
	unsigned n = 0;

	while (fixture_turn(f))
		assert_true(n++ < FIXTURE_TURNS);
	fixture_check(f);
}

void
fixture_advance(struct fixture *f, uint64_t ms)
{
	clock_fake_advance(&f->clock, ms * NS_PER_MS);
	fixture_run(f);
}

/* ---- sessions -------------------------------------------------------- */

static struct fake *
fake_make(struct fixture *f, unsigned i)
{
	struct fake *fake = calloc(1, sizeof(*fake));

	assert_non_null(fake);
	assert_true(f->n_fakes < FIXTURE_FAKES && i < f->n_scheds);
	f->fakes[f->n_fakes++] = fake;
	fake->fixture = f;
	fake->sched = &f->scheds[i];
	return fake;
}

struct fake *
fake_new_ops(struct fixture *f, unsigned i, const char *name,
	const struct session_ops *ops)
{
	struct fake *fake = fake_make(f, i);

	fake->session = session_new(fake->sched, ops, NULL, fake);
	assert_non_null(fake->session);
	if (name)
		assert_int_equal(
			session_add_alias(fake->session, name, strlen(name)),
			0);
	fake_trace(fake);
	return fake;
}

struct fake *
fake_new(struct fixture *f, unsigned i, const char *name)
{
	return fake_new_ops(f, i, name, &fake_ops);
}

struct fake *
fake_gated(struct fixture *f, unsigned i, struct session_spec *spec,
	struct start_order *order, uint32_t place)
{
	struct fake *fake = fake_make(f, i);

	fake->session = session_new_after(fake->sched, &fake_ops, spec, fake,
		order ? start_order_gate(order, place) : NULL);
	assert_non_null(fake->session);
	fake->id = fake->session->id;
	spec_unref(spec);
	return fake;
}

struct fake *
fake_hosted(struct fixture *f, unsigned i, struct session_spec *spec)
{
	return fake_gated(f, i, spec, NULL, 0);
}

struct session_spec *
fixture_spec(const char *alias, enum restart_mode restart)
{
	struct session_spec *spec = spec_new();

	assert_non_null(spec);
	spec->name = strdup(alias);
	spec->origin = strdup("/etc/eventd/sessions.d/fake.conf");
	spec->restart = restart;
	assert_int_equal(spec_add_alias(spec, alias), 0);
	return spec;
}

bool
fake_exists(const struct fake *fake)
{
	return session_find(&fake->fixture->kernel, fake->id) != NULL;
}

const char *
fake_trace(struct fake *fake)
{
	static char copies[4][FIXTURE_TRACE];
	static unsigned next;
	char *copy = copies[next++ % 4];

	memcpy(copy, fake->trace, sizeof(fake->trace));
	fake->trace[0] = 0;
	return copy;
}

/* ---- posting --------------------------------------------------------- */

struct msg *
fixture_msg(struct sched *s, const struct fake *to, const char *event)
{
	struct msg *m = msg_new(
		&s->pool, &(struct msg_init){.event = event,
				  .event_size = (uint8_t)strlen(event)});

	assert_non_null(m);
	m->to = to->id;
	return m;
}

void
fixture_post(struct fake *from, const struct fake *to, const char *event)
{
	struct sched *s = from ? from->sched : to->sched;
	struct msg *m = fixture_msg(s, to, event);

	m->from = from ? from->id : 0;
	assert_int_equal(sched_post(s, m), 0);
}

void
fixture_post_ack(struct fake *from, const struct fake *to, const char *event,
	uint64_t seq, enum msg_level level, uint8_t flags)
{
	struct msg *m = fixture_msg(from->sched, to, event);

	m->from = from->id;
	msg_wide(m)->seq = seq;
	msg_wide(m)->level = level;
	m->flags |= MSG_ACK | flags;
	assert_int_equal(sched_post(from->sched, m), 0);
}

struct msg *
fixture_rich(struct sched *s, const struct fake *to, const char *event)
{
	struct msg *m =
		msg_new(&s->pool, &(struct msg_init){.event = event,
					  .event_size = (uint8_t)strlen(event),
					  .extra = true});

	assert_non_null(m);
	m->to = to->id;
	return m;
}

void
msg_set_key(struct msg *m, const char *key)
{
	struct msg_extra *extra = msg_extra(m);

	extra->key_size = (uint8_t)strlen(key);
	memcpy(extra->key, key, extra->key_size);
}

void
fixture_send(struct fake *from, struct msg *m, uint64_t seq,
	enum msg_level level, uint8_t flags)
{
	m->from = from->id;
	msg_wide(m)->seq = seq;
	msg_wide(m)->level = level;
	if (level == MSG_LEVEL_DURABLE)
		msg_extra(m)->durable = true;
	m->flags |= MSG_ACK | flags;
	assert_int_equal(sched_post(from->sched, m), 0);
}

int
fixture_call(struct fake *from, const struct fake *to, const char *event,
	uint64_t token, uint32_t timeout_ms)
{
	struct msg *m = fixture_msg(from->sched, to, event);
	int r = session_call(from->session, m, token, timeout_ms, &from->call);

	if (r)
		msg_free(&from->sched->pool, m);
	return r;
}

/* ---- accounts -------------------------------------------------------- */

static uint64_t
ended(const struct counters *c)
{
	return c->handled + c->leased + c->expired + c->cancelled + c->dropped +
	       c->dead;
}

/* Sum up the sessions of @s and check each. */
static void
check_sessions(struct sched *s, uint64_t *queued, uint64_t *leased)
{
	for (uint32_t slot = 1; slot <= s->kernel->sessions.n_slots; slot++) {
		struct session *t = session_at(s->kernel, slot);
		struct counters c;

		if (!t->id || t->home != s)
			continue;
		c = session_counters(t);
		assert_int_equal(c.accepted, ended(&c) + t->box.n);
		*queued += t->box.n;
		*leased += c.leased;
	}
}

static uint64_t
count_admitted(const struct msg *m)
{
	uint64_t n = 0;

	for (; m; m = msg_next(m)) {
		if (m->op == MSG_TASK)
			n += queue_carried(container_of(
				(struct msg *)m, struct sched_task, msg));
		else
			n += m->op == MSG_EVENT && (m->flags & MSG_ADMITTED);
	}
	return n;
}

/* Accepted events that are in the outboxes or the inbox of @s. */
static uint64_t
in_transit(const struct sched *s)
{
	uint64_t n = 0;

	for (const struct msg *batch = s->inbox; batch; batch = batch->batch)
		n += count_admitted(batch);
	for (unsigned i = 0; i < s->kernel->n_scheds; i++)
		n += count_admitted(s->outbox[i].head);
	return n;
}

void
fixture_check(struct fixture *f)
{
	uint64_t accepted = 0, total = 0, moving = 0, moved = 0;

	for (unsigned i = 0; i < f->n_scheds; i++) {
		struct sched *s = &f->scheds[i];
		uint64_t queued = 0, leased = 0;

		check_sessions(s, &queued, &leased);
		assert_int_equal(s->queued, queued);
		assert_int_equal(s->counters.leased, leased);
		assert_int_equal(s->counters.accepted + s->transit_in,
			ended(&s->counters) + s->queued + s->delays.n +
				s->transit_out);
		accepted += s->counters.accepted;
		total += ended(&s->counters) + s->queued + s->delays.n;
		moved += s->transit_out - s->transit_in;
		moving += in_transit(s);
	}
	assert_int_equal(moved, moving);
	assert_int_equal(accepted, total + moving);
}
