/* The requests, asked over a connection: verb/ from end to end, on one loop
 * and on two. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fixture.h"
#include "verb/daemon_ops.h"

#define REQUEST(name, field, CASE, Type, TYPE)                 \
	Eventd__V1__Request name = EVENTD__V1__REQUEST__INIT;  \
	Eventd__V1__##Type field = EVENTD__V1__##TYPE##__INIT; \
	name.verb_case = EVENTD__V1__REQUEST__VERB_##CASE;     \
	name.field = &field

/* ---- list -------------------------------------------------------------- */

static Eventd__V1__SessionList *
list(struct client *c, const char *prefix, uint64_t after, uint32_t limit)
{
	REQUEST(r, list, LIST, List, LIST);

	list.prefix = (char *)prefix;
	list.after = after;
	list.limit = limit;
	return client_request(c, &r, EVD_STATUS_OK)->list;
}

/* Counts those of @prefix over all pages; fails if one comes twice. */
static unsigned
list_all(struct client *c, const char *prefix, uint32_t limit)
{
	uint64_t after = 0, last = 0;
	unsigned n = 0;

	do {
		Eventd__V1__SessionList *page = list(c, prefix, after, limit);

		if (limit)
			assert_true(page->n_sessions <= limit);
		for (size_t i = 0; i < page->n_sessions; i++) {
			uint64_t id = page->sessions[i]->id & 0xffffff;

			assert_true(id > last);
			last = id;
		}
		n += (unsigned)page->n_sessions;
		after = page->next;
	} while (after);
	return n;
}

static void
fill_sessions(struct rig *rig, unsigned n)
{
	static const struct session_ops *ops;
	struct fake *fake = fake_new(rig, 0, "many.first");

	ops = fake->session->ops;
	for (unsigned i = 1; i < n; i++) {
		struct sched *s = &rig->loops[i % rig->n_loops].sched;
		struct session *t = session_new(s, ops, NULL, NULL);
		char alias[32];

		assert_non_null(t);
		snprintf(alias, sizeof(alias), "many.%u", i);
		assert_int_equal(session_add_alias(t, alias, strlen(alias)), 0);
	}
}

static void
test_list_pages(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);

	fill_sessions(rig, 3000);
	assert_int_equal(list_all(c, "", 0), 3001); /* and the connection */
	assert_int_equal(list_all(c, "", 7), 3001);
	assert_int_equal(list_all(c, "many.", 100), 3000);
	assert_int_equal(list_all(c, "many.2999", 0), 1);
	assert_int_equal(list_all(c, "none", 0), 0);
	client_free(c);
}

static void
test_list_after_any_number(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	static const uint64_t after[] = {5, 1000, 0xfffffe, 0xffffff, 0x1000000,
		UINT64_MAX - 1, UINT64_MAX, INT64_MAX};

	for (unsigned i = 0; i < sizeof(after) / sizeof(*after); i++) {
		assert_true(list(c, "", after[i], 0)->n_sessions <= 1);
		assert_int_equal(c->frame->response->list->next, 0);
		list(c, "", after[i], UINT32_MAX);
	}
	client_expect_alive(c);
	client_free(c);
}

static void
test_list_refuses_a_bad_prefix(void **state)
{
	struct client *c = client_hello(*state, 0);
	char prefix[300];
	REQUEST(r, list, LIST, List, LIST);

	list.prefix = (char *)"no name";
	client_request(c, &r, EVD_STATUS_INVALID);
	memset(prefix, 'a', sizeof(prefix) - 1);
	prefix[299] = '\0';
	list.prefix = prefix;
	client_request(c, &r, EVD_STATUS_INVALID);
	client_free(c);
}

static void
test_list_tells_who_a_client_is(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	Eventd__V1__SessionInfo *info;

	client_bind(c, "box", 1, 0);
	info = list(c, "box", 0, 0)->sessions[0];
	assert_string_equal(info->aliases[0], "box");
	assert_string_equal(info->kind, "client");
	assert_string_equal(info->state, "up");
	assert_string_equal(info->peer, "a test");
	assert_int_equal(info->uid, getuid());
	assert_int_equal(info->pid, getpid());
	client_free(c);
}

static void
turn_one(struct rig *rig, unsigned loop)
{
	for (int i = 0; i < 20; i++)
		loop_once(&rig->loops[loop], false);
}

/* A slot is listed on one loop, then used again on another that has yet to be
 * asked: the page has no room for both. */
static void
test_list_while_a_slot_changes_its_loop(void **state)
{
	struct rig *rig = *state;
	struct fake *first = fake_new(rig, 0, "first");
	struct client *c = client_hello(rig, 0);
	REQUEST(r, list, LIST, List, LIST);

	list.after = (first->session->id & 0xffffff) - 1;
	list.limit = 1;
	client_ask(c, &r);
	turn_one(rig, 0); /* listed there */
	session_stop(first->session);
	fake_new(rig, 1, "second");
	client_expect_response(c, 1, EVD_STATUS_OK);
	assert_true(c->frame->response->list->n_sessions <= 1);
	client_free(c);
}

/* ---- status ------------------------------------------------------------ */

static void
test_status_of_the_daemon(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 1);
	struct fake *sink = fake_new(rig, 0, "sink");
	Eventd__V1__DaemonInfo *d;
	REQUEST(r, status, STATUS, Status, STATUS);

	for (int i = 0; i < 10; i++)
		client_post(c, "sink", "hit");
	client_post(c, "nobody", "hit");
	client_expect_failure(c, 11, EVD_STATUS_NO_ALIAS);
	client_expect_ack(c, 11);
	rig_run(rig);
	assert_int_equal(sink->n_run, 10);
	d = client_request(c, &r, EVD_STATUS_OK)->report->daemon;
	assert_non_null(d);
	assert_string_equal(d->server, "eventd test");
	assert_string_equal(d->state, "running");
	assert_int_equal(d->pid, getpid());
	assert_int_equal(d->loops, 2);
	assert_int_equal(d->sessions, 2);
	assert_int_equal(d->connections, 1);
	assert_int_equal(d->counters->accepted, 10);
	assert_int_equal(d->counters->handled, 10);
	assert_int_equal(d->counters->refused, 1);
	assert_true(d->memory > 100000);
	client_free(c);
}

static void
test_status_of_a_session_on_another_loop(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 1);
	struct fake *sink = fake_new(rig, 0, "sink");
	Eventd__V1__SessionInfo *info;
	REQUEST(r, status, STATUS, Status, STATUS);

	session_add_alias(sink->session, "alias.two", 9);
	mailbox_limit(&sink->session->box, 2, 12345);
	client_post(c, "sink", "wait");
	client_expect_ack(c, 1);
	for (int i = 0; i < 3; i++)
		client_post_size(c, "sink", "hit", 100);
	client_expect_ack(c, 3);
	status.alias = (char *)"sink";
	info = client_request(c, &r, EVD_STATUS_OK)->report->session;
	assert_non_null(info);
	assert_int_equal(info->n_aliases, 2);
	assert_string_equal(info->aliases[0], "sink");
	assert_string_equal(info->aliases[1], "alias.two");
	assert_string_equal(info->kind, "fake");
	assert_int_equal(info->loop, 0);
	assert_int_equal(info->counters->queued, 2);
	assert_int_equal(info->counters->leased, 1);
	assert_int_equal(info->counters->accepted, 3);
	assert_int_equal(info->parked, 1);
	assert_int_equal(info->queued_bytes, 200);
	assert_int_equal(info->max_events, 2);
	assert_int_equal(info->max_bytes, 12345);
	fake_finish(sink);
	client_expect_ack(c, 4);
	status.alias = (char *)"nobody";
	client_request(c, &r, EVD_STATUS_NO_ALIAS);
	status.alias = (char *)"no name";
	client_request(c, &r, EVD_STATUS_INVALID);
	client_free(c);
}

static void
test_status_of_a_session_that_dies_meanwhile(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 1);
	struct fake *sink = fake_new(rig, 0, "sink");
	REQUEST(r, status, STATUS, Status, STATUS);

	status.alias = (char *)"sink";
	client_ask(c, &r);
	turn_one(rig, 1);
	session_stop(sink->session);
	client_expect_response(c, 1, EVD_STATUS_NO_ALIAS);
	client_free(c);
}

/* ---- gathering --------------------------------------------------------- */

static void
test_the_asker_leaves_before_the_answer(void **state)
{
	struct rig *rig = *state;
	REQUEST(a, list, LIST, List, LIST);
	REQUEST(b, status, STATUS, Status, STATUS);
	REQUEST(t, timers, TIMERS, Timers, TIMERS);
	REQUEST(x, cancel, CANCEL, Cancel, CANCEL);

	cancel.timer = 1; /* of loop 1 */
	for (int i = 0; i < 10; i++) {
		struct client *c = client_hello(rig, 0);

		client_ask(c, &a);
		client_ask(c, &b);
		client_ask(c, &t);
		client_ask(c, &x);
		turn_one(rig, 0);
		if (i & 1)
			turn_one(rig, 1);
		client_free(c);
		while (conn_count(&rig->loops[0]))
			turn_one(rig, 0);
		client_free(client_hello(rig, 0)); /* in its place */
		rig_run(rig);
	}
}

/* The other loop does not turn: little is held of what waits for it. */
static void
test_requests_wait_for_a_stuck_loop(void **state)
{
	enum { N = 100000 };
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0), *d = client_hello(rig, 0);
	struct conn *conn = rig_conn(rig, 0);
	size_t size = (size_t)N * 6, sent = 0, idle = 0;
	uint8_t *bytes = malloc(size);

	assert_non_null(bytes);
	for (size_t i = 0; i < N; i++) /* status, and an empty frame */
		memcpy(bytes + i * 6, "\x04\x3a\x02\x42\x00\x00", 6);
	while (sent < size && idle < 200) {
		ssize_t n =
			send(d->fd, bytes + sent, size - sent, MSG_NOSIGNAL);

		idle = n > 0 ? 0 : idle + 1;
		sent += n > 0 ? (size_t)n : 0;
		loop_once(&rig->loops[0], false);
	}
	assert_true(sent < size);
	assert_true(conn->peer.n_requests <= VERB_REQUESTS_MAX);
	assert_true(conn->in_room <= 2 * LOOP_READ_SIZE);
	client_call(c, "nobody", "x", 1, "");
	turn_one(rig, 0); /* others of the loop are served */
	assert_non_null(client_poll(c));
	for (size_t i = 0; i < (sent + 1) / 6; i++) {
		assert_non_null(client_next(d));
		assert_non_null(d->frame->response);
	}
	assert_int_equal(conn->peer.n_requests, 0);
	client_expect_alive(c);
	free(bytes);
	client_free(c);
	client_free(d);
}

/* ---- time -------------------------------------------------------------- */

static Eventd__V1__Response *
set_delay(struct client *c, const char *alias, const char *event, uint64_t ms,
	int status)
{
	REQUEST(r, delay, DELAY, Delay, DELAY);

	delay.alias = (char *)alias;
	delay.event = (char *)event;
	delay.delay_ms = ms;
	return client_request(c, &r, status);
}

static void
test_a_delay_fires(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	Eventd__V1__Envelope *e;

	client_bind(c, "box", 1, 0);
	set_delay(c, "box", "ring", 5, EVD_STATUS_OK);
	assert_true(c->frame->response->delayed->timer != 0);
	assert_true(c->frame->response->delayed->due_ns > 0);
	e = client_expect_delivery(c, 1, "ring");
	assert_true(e->id != 0);
	client_settle(c, 1, 1);
	rig_check(rig);
	client_free(c);
}

static void
test_delays_are_checked(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	Eventd__V1__Header header = EVENTD__V1__HEADER__INIT, *many[70];
	REQUEST(r, delay, DELAY, Delay, DELAY);

	fake_new(rig, 0, "sink");
	set_delay(c, "nobody", "ring", 5, EVD_STATUS_NO_ALIAS);
	set_delay(c, "no name", "ring", 5, EVD_STATUS_INVALID);
	set_delay(c, "sink", "no name", 5, EVD_STATUS_INVALID);
	set_delay(c, "sink", "", 5, EVD_STATUS_INVALID);
	set_delay(c, "sink", "ring", UINT64_MAX, EVD_STATUS_INVALID);
	delay.alias = (char *)"sink";
	delay.event = (char *)"ring";
	delay.repeat_ms = UINT64_MAX;
	client_request(c, &r, EVD_STATUS_INVALID);
	delay.repeat_ms = 0;
	delay.at_ns = -1;
	client_request(c, &r, EVD_STATUS_INVALID);
	delay.at_ns = INT64_MAX;
	delay.delay_ms = 1;
	client_request(c, &r, EVD_STATUS_INVALID);
	delay.delay_ms = 0;
	client_request(c, &r, EVD_STATUS_OK);
	delay.at_ns = 0;
	delay.delay_ms = 3600000;
	delay.payload.len = rig->kernel.limits.max_payload + 1;
	delay.payload.data = calloc(1, delay.payload.len);
	client_request(c, &r, EVD_STATUS_TOO_LARGE);
	delay.payload.len--;
	client_request(c, &r, EVD_STATUS_OK);
	delay.payload.len = 0;
	for (int i = 0; i < 70; i++)
		many[i] = &header;
	header.name = (char *)"h";
	delay.headers = many;
	delay.n_headers = 70;
	client_request(c, &r, EVD_STATUS_INVALID);
	delay.n_headers = 64;
	client_request(c, &r, EVD_STATUS_OK);
	header.value.len = 300;
	header.value.data = delay.payload.data;
	client_request(c, &r, EVD_STATUS_TOO_LARGE);
	free(delay.payload.data);
	client_free(c);
}

/* A consumer's library refuses such names: the sender must be told. */
static void
test_header_names_of_delays_are_checked(void **state)
{
	static const char *const names[] = {"", "no name", "\xc3\xa9", "a\n"};
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	Eventd__V1__Header header = EVENTD__V1__HEADER__INIT, *one = &header;
	REQUEST(r, delay, DELAY, Delay, DELAY);

	fake_new(rig, 0, "sink");
	delay.alias = (char *)"sink";
	delay.event = (char *)"ring";
	delay.headers = &one;
	delay.n_headers = 1;
	for (unsigned i = 0; i < 4; i++) {
		header.name = (char *)names[i];
		client_request(c, &r, EVD_STATUS_INVALID);
	}
	header.name = (char *)"good.name";
	client_request(c, &r, EVD_STATUS_OK);
	client_free(c);
}

static void
test_timers_have_a_limit(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);

	rig->kernel.limits.max_timers = 3;
	fake_new(rig, 0, "sink");
	for (int i = 0; i < 3; i++)
		set_delay(c, "sink", "ring", 1000000, EVD_STATUS_OK);
	set_delay(c, "sink", "ring", 1000000, EVD_STATUS_LIMIT);
	client_free(c);
}

static void
test_timers_hold_no_more_bytes_than_they_may(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	struct delays *delays = &rig->loops[0].sched.delays;
	uint64_t before;
	REQUEST(r, delay, DELAY, Delay, DELAY);
	REQUEST(x, cancel, CANCEL, Cancel, CANCEL);

	client_bind(c, "box", 1, 0);
	delay.alias = (char *)"box";
	delay.event = (char *)"ring";
	delay.delay_ms = 1000000;
	delay.payload.len = 1000;
	delay.payload.data = calloc(1, 1000);
	client_request(c, &r, EVD_STATUS_OK);
	cancel.timer = c->frame->response->delayed->timer;
	assert_int_equal(delays->size, 1000);
	client_request(c, &x, EVD_STATUS_OK);
	assert_int_equal(delays->size, 0);
	delay.delay_ms = 1;
	client_request(c, &r, EVD_STATUS_OK);
	client_expect_delivery(c, 1, "ring");
	assert_int_equal(delays->size, 0);
	before = delays->size = DELAYS_SIZE_MAX - 1500; /* as if */
	delay.delay_ms = 1000000;
	client_request(c, &r, EVD_STATUS_OK);
	client_request(c, &r, EVD_STATUS_LIMIT);
	assert_int_equal(delays->size, before + 1000);
	delays->size = 1000;
	free(delay.payload.data);
	client_free(c);
}

static void
test_cancel_from_another_loop(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0), *d = client_hello(rig, 1);
	REQUEST(r, cancel, CANCEL, Cancel, CANCEL);

	fake_new(rig, 0, "sink");
	set_delay(c, "sink", "ring", 1000000, EVD_STATUS_OK);
	cancel.timer = c->frame->response->delayed->timer;
	client_request(d, &r, EVD_STATUS_OK);
	client_request(d, &r, EVD_STATUS_NOT_FOUND);
	client_request(c, &r, EVD_STATUS_NOT_FOUND);
	cancel.timer = 0;
	client_request(c, &r, EVD_STATUS_NOT_FOUND);
	cancel.timer = UINT64_MAX;
	client_request(c, &r, EVD_STATUS_NOT_FOUND);
	cancel.timer = 63; /* of a loop that is not there */
	client_request(c, &r, EVD_STATUS_NOT_FOUND);
	rig_check(rig);
	assert_int_equal(rig->loops[0].sched.counters.cancelled, 1);
	client_free(c);
	client_free(d);
}

static unsigned
timers_all(struct client *c, const char *alias, uint32_t limit, unsigned *pages)
{
	unsigned n = 0;
	REQUEST(r, timers, TIMERS, Timers, TIMERS);

	*pages = 0;
	timers.alias = (char *)alias;
	timers.limit = limit;
	do {
		Eventd__V1__TimerList *page =
			client_request(c, &r, EVD_STATUS_OK)->timers;

		if (limit)
			assert_true(page->n_timers <= limit);
		n += (unsigned)page->n_timers;
		timers.after = page->next;
		++*pages;
	} while (timers.after);
	return n;
}

static void
test_timers_are_listed_over_loops(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0), *d = client_hello(rig, 1);
	unsigned pages;
	REQUEST(r, timers, TIMERS, Timers, TIMERS);

	fake_new(rig, 0, "sink");
	fake_new(rig, 1, "other");
	assert_int_equal(timers_all(c, "", 0, &pages), 0);
	for (int i = 0; i < 25; i++) {
		set_delay(c, "sink", "ring", 1000000, EVD_STATUS_OK);
		set_delay(d, i % 5 ? "sink" : "other", "ring", 2000000,
			EVD_STATUS_OK);
	}
	assert_int_equal(timers_all(c, "", 0, &pages), 50);
	assert_int_equal(timers_all(d, "", 3, &pages), 50);
	assert_int_equal(timers_all(c, "other", 2, &pages), 5);
	assert_int_equal(timers_all(c, "nobody", 0, &pages), 0);
	timers.alias = (char *)"no name";
	client_request(c, &r, EVD_STATUS_INVALID);
	timers.alias = (char *)"";
	timers.after = UINT64_MAX;
	client_request(c, &r, EVD_STATUS_OK);
	timers.alias = (char *)"other";
	timers.after = 0;
	client_request(c, &r, EVD_STATUS_OK);
	assert_string_equal(
		c->frame->response->timers->timers[0]->alias, "other");
	assert_string_equal(
		c->frame->response->timers->timers[0]->event, "ring");
	client_free(c);
	client_free(d);
}

/* A search that finds nothing must not hold up the loop for all timers. */
static void
test_a_search_in_many_timers_is_cut_into_pages(void **state)
{
	enum { N = 50000 };
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	struct sched *s = &rig->loops[0].sched;
	unsigned pages;

	fake_new(rig, 0, "sink");
	for (int i = 0; i < N; i++) {
		struct delay_init init = {.alias = "sink",
			.alias_size = 4,
			.event = "ring",
			.event_size = 4,
			.due_ns = s->now_ns + 3600ull * NS_PER_S};

		assert_int_equal(delay_set(s, NULL, &init, NULL, NULL), 0);
	}
	assert_int_equal(timers_all(c, "nobody", 0, &pages), 0);
	assert_in_range(pages, 3, 50);
	assert_int_equal(timers_all(c, "sink", 0, &pages), N);
	client_free(c);
}

/* ---- managing ---------------------------------------------------------- */

static void
test_restart(void **state)
{
	struct rig *rig = *state;
	struct session *hosted = fake_hosted(rig, 0, "hosted");
	struct client *c = client_hello(rig, 1);
	REQUEST(r, restart, RESTART, Restart, RESTART);

	assert_int_equal(hosted->starts, 1);
	restart.alias = (char *)"hosted";
	client_request(c, &r, EVD_STATUS_OK);
	rig_run(rig);
	assert_true(hosted->starts > 1);
	assert_string_equal(session_state_word(hosted), "up");
	client_bind(c, "box", 1, 0);
	restart.alias = (char *)"box";
	client_request(c, &r, EVD_STATUS_UNSUPPORTED);
	restart.alias = (char *)"nobody";
	client_request(c, &r, EVD_STATUS_NO_ALIAS);
	restart.alias = (char *)"";
	client_request(c, &r, EVD_STATUS_INVALID);
	client_free(c);
}

struct host {
	struct rig *rig;
	unsigned n_reloads;
	bool preview, broken, later;
	void (*done)(void *arg, int status, const char *text,
		const struct reload_diff *diff);
	void *arg;
};

static void
host_answer(struct host *host)
{
	char name[] = "thumbs", *names[] = {name};
	struct reload_diff diff = {
		.added = names, .n_added = 1, .n_unchanged = 7};

	if (host->broken)
		host->done(host->arg, EVD_STATUS_CONFIG, "x.conf:1: no", NULL);
	else
		host->done(host->arg, 0, NULL, &diff);
}

static void
host_reload(void *daemon, struct sched *sched, bool preview,
	void (*done)(void *arg, int status, const char *text,
		const struct reload_diff *diff),
	void *arg)
{
	struct host *host = daemon;

	(void)sched;
	host->n_reloads++;
	host->preview = preview;
	host->done = done;
	host->arg = arg;
	if (!host->later)
		host_answer(host);
}

static const struct daemon_ops host_ops = {.reload = host_reload};

static void
test_reload(void **state)
{
	struct rig *rig = *state;
	struct host host = {.rig = rig};
	struct client *c = client_hello(rig, 0);
	REQUEST(r, reload, RELOAD, Reload, RELOAD);

	client_request(c, &r, EVD_STATUS_UNSUPPORTED); /* nobody to do it */
	rig->server.shared.daemon = &host_ops;
	rig->server.shared.daemon_data = &host;
	reload.preview = true;
	client_request(c, &r, EVD_STATUS_OK);
	assert_true(host.preview);
	assert_int_equal(c->frame->response->reloaded->n_added, 1);
	assert_string_equal(c->frame->response->reloaded->added[0], "thumbs");
	assert_int_equal(c->frame->response->reloaded->unchanged, 7);
	host.broken = true;
	client_request(c, &r, EVD_STATUS_CONFIG);
	assert_string_equal(c->frame->response->text, "x.conf:1: no");
	host.later = true;
	client_ask(c, &r);
	client_expect_silence(c);
	client_free(c);
	RIG_UNTIL(rig, !conn_count(&rig->loops[0]));
	host_answer(&host); /* nobody waits for it any more */
}

static void
test_only_root_and_the_owner_manage(void **state)
{
	struct rig *rig = *state;
	struct host host = {.rig = rig};
	struct session *hosted = fake_hosted(rig, 0, "hosted");
	struct client *c = client_hello(rig, 0);
	REQUEST(r, reload, RELOAD, Reload, RELOAD);
	REQUEST(s, restart, RESTART, Restart, RESTART);

	rig->server.shared.daemon = &host_ops;
	rig->server.shared.daemon_data = &host;
	rig_become(rig, 0, 1234, 4321);
	restart.alias = (char *)"hosted";
	client_request(c, &r, EVD_STATUS_DENIED);
	client_request(c, &s, EVD_STATUS_DENIED);
	assert_int_equal(host.n_reloads, 0);
	assert_int_equal(hosted->starts, 1);
	rig_become(rig, 0, (uid_t)-1, 4321); /* not known */
	client_request(c, &r, EVD_STATUS_DENIED);
	rig_become(rig, 0, 4321, 4321);
	client_request(c, &r, EVD_STATUS_OK);
	client_request(c, &s, EVD_STATUS_OK);
	rig_become(rig, 0, 0, 4321);
	client_request(c, &r, EVD_STATUS_OK);
	client_free(c);
}

static void
test_a_stopping_daemon_takes_nothing_new(void **state)
{
	struct rig *rig = *state;
	struct client *c = client_hello(rig, 0);
	REQUEST(r, bind, BIND, Bind, BIND);

	fake_new(rig, 0, "sink");
	atomic_store(&rig->kernel.stopping, true);
	conn_announce_closing(&rig->loops[0]);
	assert_non_null(client_next(c));
	assert_non_null(c->frame->notice);
	assert_non_null(c->frame->notice->closing);
	client_post(c, "sink", "hit");
	client_expect_failure(c, 1, EVD_STATUS_UNAVAILABLE);
	client_expect_ack(c, 1);
	client_call(c, "sink", "echo", 1, "");
	client_expect_reply(c, 1, EVD_STATUS_UNAVAILABLE, NULL);
	set_delay(c, "sink", "ring", 5, EVD_STATUS_UNAVAILABLE);
	bind.alias = (char *)"box";
	bind.binding = 1;
	client_request(c, &r, EVD_STATUS_UNAVAILABLE);
	client_expect_alive(c);
	client_free(c);
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
#define TWO(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup_two, rig_teardown)
	const struct CMUnitTest tests[] = {
		TWO(test_list_pages),
		TEST(test_list_after_any_number),
		TEST(test_list_refuses_a_bad_prefix),
		TEST(test_list_tells_who_a_client_is),
		TWO(test_list_while_a_slot_changes_its_loop),
		TWO(test_status_of_the_daemon),
		TWO(test_status_of_a_session_on_another_loop),
		TWO(test_status_of_a_session_that_dies_meanwhile),
		TWO(test_the_asker_leaves_before_the_answer),
		TWO(test_requests_wait_for_a_stuck_loop),
		TEST(test_a_delay_fires),
		TEST(test_delays_are_checked),
		TEST(test_header_names_of_delays_are_checked),
		TEST(test_timers_have_a_limit),
		TEST(test_timers_hold_no_more_bytes_than_they_may),
		TWO(test_cancel_from_another_loop),
		TWO(test_timers_are_listed_over_loops),
		TEST(test_a_search_in_many_timers_is_cut_into_pages),
		TWO(test_restart),
		TEST(test_reload),
		TEST(test_only_root_and_the_owner_manage),
		TEST(test_a_stopping_daemon_takes_nothing_new),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
