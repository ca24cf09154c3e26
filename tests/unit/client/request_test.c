/* Requests: ids, timers, lists, the status, reload. */
#include "client/fake.h"

static void
test_resolve_gives_ids(void **state)
{
	struct fake *f = *state;
	uint64_t a, b;

	fake_respond_resolved(f, FAKE_NUMBER(1), 900);
	assert_int_equal(evd_resolve(f->c, "a", &a), 0);
	assert_string_equal(fake_read(f)->request->resolve->alias, "a");
	fake_respond_resolved(f, FAKE_NUMBER(2), 901);
	assert_int_equal(evd_resolve(f->c, "b", &b), 0);
	fake_read(f);
	assert_true(a && b && a != b);
	assert_int_equal(evd_post_id(f->c, b, "e", "x", 1), 0);
	assert_int_equal(evd_post_id(f->c, a, "e", "x", 1), 0);
	assert_int_equal(evd_post_id(f->c, b + 1, "e", "x", 1), -ESRCH);
	assert_int_equal(evd_flush(f->c), 0);
	assert_int_equal(fake_read(f)->n_envelopes, 2);
	assert_int_equal(f->frame->envelopes[0]->to, 901);
	assert_int_equal(f->frame->envelopes[1]->to, 900);
	assert_string_equal(f->frame->envelopes[0]->alias, "");
}

static void
test_resolve_refused(void **state)
{
	struct fake *f = *state;
	const struct evd_event *ev;
	uint64_t id = 7;
	int64_t request;

	fake_respond_status(f, FAKE_NUMBER(1), EVD_STATUS_NO_ALIAS,
		"no session holds the alias 'a'");
	assert_int_equal(evd_resolve(f->c, "a", &id), -ENOENT);
	assert_int_equal(evd_last_status(f->c), EVD_STATUS_NO_ALIAS);
	assert_int_equal(id, 7);
	assert_int_equal(evd_post_id(f->c, 1, "e", "x", 1), -ESRCH);
	request = evd_resolve_start(f->c, "a");
	assert_true(request > 0);
	fake_respond_resolved(f, (uint64_t)request, 5);
	ev = fake_next_is(f, EVD_RESPONSE);
	assert_int_equal(
		evd_post_id(f->c, evd_event_result(ev), "e", "x", 1), 0);
}

/* An answer of another kind than asked for is told, and kills nothing. */
static void
test_wrong_answer_is_a_protocol_error(void **state)
{
	struct fake *f = *state;
	struct evd_sessions *page;
	uint64_t id;

	fake_respond_bound(f, FAKE_NUMBER(1), 5);
	assert_int_equal(evd_resolve(f->c, "a", &id), -EPROTO);
	fake_respond_bound(f, FAKE_NUMBER(2), 5);
	assert_int_equal(evd_list(f->c, NULL, 0, 0, &page), -EPROTO);
	fake_respond_status(f, FAKE_NUMBER(3), 0, "");
	assert_int_equal(evd_delay(f->c, "a", "e", "x", 1, 5), -EPROTO);
	fake_respond_status(f, FAKE_NUMBER(77), 0, ""); /* to nothing */
	fake_settle_down(f);
	assert_true(evd_is_connected(f->c));
}

static void
test_requests_time_out(void **state)
{
	struct fake *f = *state;
	uint64_t id;

	assert_int_equal(evd_set_timeout(f->c, 2), 0);
	assert_int_equal(evd_ping(f->c, NULL), -ETIMEDOUT);
	assert_int_equal(evd_resolve(f->c, "a", &id), -ETIMEDOUT);
	assert_int_equal(evd_bind(f->c, "mine", 0, 0), -ETIMEDOUT);
	assert_int_equal(fake_read(f)->request->verb_case,
		EVENTD__V1__REQUEST__VERB_PING);
	fake_read(f);
	assert_non_null(fake_read(f)->request->bind);
	/* what comes too late is given back */
	fake_respond_status(f, FAKE_NUMBER(1), 0, "");
	fake_respond_resolved(f, FAKE_NUMBER(2) + 1, 5);
	fake_respond_bound(f, FAKE_NUMBER(3) + 2, 5);
	assert_int_equal(evd_set_timeout(f->c, FAKE_WAIT_MS), 0);
	fake_settle_down(f);
	assert_int_equal(evd_flush(f->c), 0);
	assert_int_equal(fake_read(f)->request->unbind->binding, 1);
	assert_int_equal(evd_post_id(f->c, 1, "e", "x", 1), -ESRCH);
}

static void
respond_delayed(struct fake *f, uint64_t request, uint64_t timer)
{
	Eventd__V1__Response response = EVENTD__V1__RESPONSE__INIT;
	Eventd__V1__Delayed delayed = EVENTD__V1__DELAYED__INIT;

	delayed.timer = timer;
	delayed.due_ns = 1800000000000000000;
	response.id = request;
	response.result_case = EVENTD__V1__RESPONSE__RESULT_DELAYED;
	response.delayed = &delayed;
	fake_respond(f, &response);
}

static void
test_delays(void **state)
{
	struct fake *f = *state;
	struct evd_header header = {"k", "v", 1};
	struct evd_delay_options opt = {.size = sizeof(opt),
		.delay_ms = 10,
		.repeat_ms = 60000,
		.headers = &header,
		.n_headers = 1};
	const Eventd__V1__Delay *d;

	assert_int_equal(evd_due_ns(f->c), 0);
	respond_delayed(f, FAKE_NUMBER(1), 71);
	assert_int_equal(evd_delay(f->c, "a", "e", "xyz", 3, 1500), 71);
	assert_true(evd_due_ns(f->c) == 1800000000000000000);
	d = fake_read(f)->request->delay;
	assert_string_equal(d->alias, "a");
	assert_string_equal(d->event, "e");
	assert_int_equal(d->payload.len, 3);
	assert_int_equal(d->delay_ms, 1500);
	assert_int_equal(d->at_ns, 0);
	respond_delayed(f, FAKE_NUMBER(2), 72);
	assert_int_equal(evd_alarm(f->c, "a", "e", NULL, 0, 99), 72);
	assert_int_equal(fake_read(f)->request->delay->at_ns, 99);
	respond_delayed(f, FAKE_NUMBER(3), 73);
	assert_int_equal(evd_delay_opt(f->c, "a", "e", NULL, 0, &opt), 73);
	d = fake_read(f)->request->delay;
	assert_int_equal(d->repeat_ms, 60000);
	assert_int_equal(d->n_headers, 1);
	assert_string_equal(d->headers[0]->name, "k");
	respond_delayed(f, FAKE_NUMBER(4), UINT64_MAX);
	assert_int_equal(evd_delay(f->c, "a", "e", "", 0, 1), -EPROTO);
	opt.at_ns = 5;
	assert_int_equal(evd_delay_opt(f->c, "a", "e", NULL, 0, &opt), -EINVAL);
	assert_int_equal(evd_delay_opt(f->c, "a", "e", NULL, 0, NULL), -EINVAL);
	assert_int_equal(evd_alarm(f->c, "a", "e", NULL, 0, 0), -EINVAL);
	assert_int_equal(evd_alarm(f->c, "a", "e", NULL, 0, -1), -EINVAL);
	assert_int_equal(evd_delay(f->c, "a b", "e", "", 0, 1), -EINVAL);
	fake_respond_status(f, FAKE_NUMBER(5), EVD_STATUS_NOT_FOUND,
		"timer 71 is not pending");
	assert_int_equal(evd_cancel(f->c, 71), -ESRCH);
	assert_string_equal(evd_last_error(f->c), "timer 71 is not pending");
}

static void
test_requests_started(void **state)
{
	struct fake *f = *state;
	struct evd_delay_options opt = {.size = sizeof(opt), .delay_ms = 10};
	const struct evd_event *ev;
	int64_t delay, cancel, ping;

	delay = evd_delay_start(f->c, "a", "e", "x", 1, &opt);
	cancel = evd_cancel_start(f->c, 5);
	ping = evd_ping_start(f->c);
	assert_true(delay > 0 && cancel > 0 && ping > 0);
	assert_int_equal(evd_flush(f->c), 0);
	for (int i = 0; i < 3; i++)
		assert_non_null(fake_read(f)->request);
	fake_respond_status(f, (uint64_t)ping, 0, "");
	respond_delayed(f, (uint64_t)delay, 12);
	ev = fake_next_is(f, EVD_RESPONSE);
	assert_int_equal(evd_event_request(ev), ping);
	ev = fake_next_is(f, EVD_RESPONSE);
	assert_int_equal(evd_event_request(ev), delay);
	assert_int_equal(evd_event_result(ev), 12);
	fake_hang_up(f);
	ev = fake_next_is(f, EVD_RESPONSE);
	assert_int_equal(evd_event_request(ev), cancel);
	assert_int_equal(evd_event_status(ev), EVD_STATUS_LOST);
}

static void
fill_session(Eventd__V1__SessionInfo *s, Eventd__V1__Counters *counters,
	char **aliases)
{
	eventd__v1__session_info__init(s);
	eventd__v1__counters__init(counters);
	counters->accepted = 10;
	counters->dead_lettered = 3;
	counters->refused = 4;
	s->id = 42;
	s->aliases = aliases;
	s->n_aliases = 2;
	s->kind = (char *)"lua";
	s->state = (char *)"backoff";
	s->counters = counters;
	s->queued_bytes = 1;
	s->max_events = 2;
	s->max_bytes = 3;
	s->parked = 4;
	s->memory = 5;
	s->loop = 6;
	s->restarts = 7;
	s->reason = (char *)"it \xff failed";
	s->started_ns = 8;
	s->restart_ns = -9;
	s->uid = 10;
	s->pid = 11;
	s->peer = (char *)"peer";
	s->origin = (char *)"/etc/x.conf";
}

static void
check_session(const struct evd_session *s)
{
	assert_int_equal(evd_session_id(s), 42);
	assert_int_equal(evd_session_n_aliases(s), 2);
	assert_string_equal(evd_session_alias(s, 1), "two");
	assert_null(evd_session_alias(s, 2));
	assert_string_equal(evd_session_kind(s), "lua");
	assert_string_equal(evd_session_state(s), "backoff");
	assert_int_equal(evd_session_counter(s, EVD_COUNTER_ACCEPTED), 10);
	assert_int_equal(evd_session_counter(s, EVD_COUNTER_DEAD_LETTERED), 3);
	assert_int_equal(evd_session_counter(s, EVD_COUNTER_REFUSED), 4);
	assert_int_equal(evd_session_counter(s, EVD_N_COUNTERS), 0);
	assert_int_equal(evd_session_queued_bytes(s), 1);
	assert_int_equal(evd_session_max_events(s), 2);
	assert_int_equal(evd_session_max_bytes(s), 3);
	assert_int_equal(evd_session_parked(s), 4);
	assert_int_equal(evd_session_memory(s), 5);
	assert_int_equal(evd_session_loop(s), 6);
	assert_int_equal(evd_session_restarts(s), 7);
	assert_string_equal(evd_session_reason(s), "it \xff failed");
	assert_int_equal(evd_session_started_ns(s), 8);
	assert_int_equal(evd_session_restart_ns(s), -9);
	assert_int_equal(evd_session_uid(s), 10);
	assert_int_equal(evd_session_pid(s), 11);
	assert_string_equal(evd_session_peer(s), "peer");
	assert_string_equal(evd_session_origin(s), "/etc/x.conf");
}

static void
test_list(void **state)
{
	struct fake *f = *state;
	Eventd__V1__Response response = EVENTD__V1__RESPONSE__INIT;
	Eventd__V1__SessionList list = EVENTD__V1__SESSION_LIST__INIT;
	Eventd__V1__SessionInfo info[2], *sessions[] = {&info[0], &info[1]};
	Eventd__V1__Counters counters;
	char *aliases[] = {(char *)"one", (char *)"two"};
	struct evd_sessions *page;

	fill_session(&info[0], &counters, aliases);
	eventd__v1__session_info__init(&info[1]);
	list.sessions = sessions;
	list.n_sessions = 2;
	list.next = 43;
	response.id = FAKE_NUMBER(1);
	response.result_case = EVENTD__V1__RESPONSE__RESULT_LIST;
	response.list = &list;
	fake_respond(f, &response);
	assert_int_equal(evd_list(f->c, "a.", 7, 100, &page), 0);
	assert_string_equal(fake_read(f)->request->list->prefix, "a.");
	assert_int_equal(f->frame->request->list->after, 7);
	assert_int_equal(f->frame->request->list->limit, 100);
	evd_free(f->c); /* the page is ours */
	f->c = NULL;
	assert_int_equal(evd_sessions_count(page), 2);
	assert_int_equal(evd_sessions_next(page), 43);
	check_session(evd_sessions_at(page, 0));
	assert_string_equal(evd_session_kind(evd_sessions_at(page, 1)), "");
	assert_int_equal(evd_session_counter(evd_sessions_at(page, 1), 0), 0);
	assert_null(evd_sessions_at(page, 2));
	assert_null(evd_sessions_free(page));
	assert_null(evd_sessions_free(NULL));
}

static void
test_status(void **state)
{
	struct fake *f = *state;
	Eventd__V1__Response response = EVENTD__V1__RESPONSE__INIT;
	Eventd__V1__StatusReport report = EVENTD__V1__STATUS_REPORT__INIT;
	Eventd__V1__SessionInfo info;
	Eventd__V1__DaemonInfo daemon = EVENTD__V1__DAEMON_INFO__INIT;
	Eventd__V1__Counters counters;
	char *aliases[] = {(char *)"one", (char *)"two"};
	struct evd_report *r;
	const struct evd_daemon *d;

	fill_session(&info, &counters, aliases);
	report.session = &info;
	response.id = FAKE_NUMBER(1);
	response.result_case = EVENTD__V1__RESPONSE__RESULT_REPORT;
	response.report = &report;
	fake_respond(f, &response);
	assert_int_equal(evd_status(f->c, "one", &r), 0);
	assert_string_equal(fake_read(f)->request->status->alias, "one");
	check_session(evd_report_session(r));
	assert_null(evd_report_daemon(r));
	evd_report_free(r);

	report.session = NULL;
	report.daemon = &daemon;
	daemon.server = (char *)"eventd 9";
	daemon.pid = 1;
	daemon.started_ns = 2;
	daemon.loops = 3;
	daemon.sessions = 4;
	daemon.failed = 5;
	daemon.connections = 6;
	daemon.counters = &counters;
	daemon.memory = 7;
	daemon.state = (char *)"running";
	daemon.late_replies = 8;
	response.id = FAKE_NUMBER(2);
	fake_respond(f, &response);
	assert_int_equal(evd_status(f->c, NULL, &r), 0);
	assert_null(evd_report_session(r));
	d = evd_report_daemon(r);
	assert_string_equal(evd_daemon_server(d), "eventd 9");
	assert_int_equal(evd_daemon_pid(d), 1);
	assert_int_equal(evd_daemon_started_ns(d), 2);
	assert_int_equal(evd_daemon_loops(d), 3);
	assert_int_equal(evd_daemon_sessions(d), 4);
	assert_int_equal(evd_daemon_failed(d), 5);
	assert_int_equal(evd_daemon_connections(d), 6);
	assert_int_equal(evd_daemon_counter(d, EVD_COUNTER_ACCEPTED), 10);
	assert_int_equal(evd_daemon_memory(d), 7);
	assert_string_equal(evd_daemon_state(d), "running");
	assert_int_equal(evd_daemon_late_replies(d), 8);
	evd_report_free(r);
}

static void
test_timers(void **state)
{
	struct fake *f = *state;
	Eventd__V1__Response response = EVENTD__V1__RESPONSE__INIT;
	Eventd__V1__TimerList list = EVENTD__V1__TIMER_LIST__INIT;
	Eventd__V1__TimerInfo info = EVENTD__V1__TIMER_INFO__INIT,
			      *timers[] = {&info};
	struct evd_timers *page;
	const struct evd_timer *t;

	info.id = 1;
	info.alias = (char *)"a";
	info.event = (char *)"e";
	info.due_ns = -2;
	info.repeat_ms = 3;
	info.owner = 4;
	info.size = 5;
	list.timers = timers;
	list.n_timers = 1;
	response.id = FAKE_NUMBER(1);
	response.result_case = EVENTD__V1__RESPONSE__RESULT_TIMERS;
	response.timers = &list;
	fake_respond(f, &response);
	assert_int_equal(evd_timers(f->c, "", 9, 10, &page), 0);
	assert_int_equal(fake_read(f)->request->timers->after, 9);
	assert_int_equal(evd_timers_count(page), 1);
	assert_int_equal(evd_timers_next(page), 0);
	assert_null(evd_timers_at(page, 1));
	t = evd_timers_at(page, 0);
	assert_int_equal(evd_timer_id(t), 1);
	assert_string_equal(evd_timer_alias(t), "a");
	assert_string_equal(evd_timer_event(t), "e");
	assert_int_equal(evd_timer_due_ns(t), -2);
	assert_int_equal(evd_timer_repeat_ms(t), 3);
	assert_int_equal(evd_timer_owner(t), 4);
	assert_int_equal(evd_timer_size(t), 5);
	evd_timers_free(page);
}

static void
test_reload_and_restart(void **state)
{
	struct fake *f = *state;
	Eventd__V1__Response response = EVENTD__V1__RESPONSE__INIT;
	Eventd__V1__Reloaded reloaded = EVENTD__V1__RELOADED__INIT;
	char *added[] = {(char *)"n1", (char *)"n2"};
	struct evd_changes *changes;

	reloaded.added = added;
	reloaded.n_added = 2;
	reloaded.unchanged = 6;
	response.id = FAKE_NUMBER(1);
	response.result_case = EVENTD__V1__RESPONSE__RESULT_RELOADED;
	response.reloaded = &reloaded;
	fake_respond(f, &response);
	assert_int_equal(evd_reload(f->c, true, &changes), 0);
	assert_true(fake_read(f)->request->reload->preview);
	assert_int_equal(evd_changes_count(changes, EVD_CHANGE_ADDED), 2);
	assert_int_equal(evd_changes_count(changes, EVD_CHANGE_CHANGED), 0);
	assert_int_equal(evd_changes_count(changes, EVD_CHANGE_REMOVED), 0);
	assert_int_equal(evd_changes_count(changes, 9), 0);
	assert_string_equal(
		evd_changes_name(changes, EVD_CHANGE_ADDED, 1), "n2");
	assert_null(evd_changes_name(changes, EVD_CHANGE_ADDED, 2));
	assert_int_equal(evd_changes_unchanged(changes), 6);
	evd_changes_free(changes);
	fake_respond_status(f, FAKE_NUMBER(2), EVD_STATUS_CONFIG,
		"/etc/eventd/sessions.d/x.conf:3: no such key");
	assert_int_equal(evd_reload(f->c, false, NULL), -EUCLEAN);
	assert_non_null(strstr(evd_last_error(f->c), "x.conf:3"));
	fake_respond_status(f, FAKE_NUMBER(3), 0, "");
	assert_int_equal(evd_restart(f->c, "box"), 0);
	assert_int_equal(evd_restart(f->c, ""), -EINVAL);
	fake_respond_status(
		f, FAKE_NUMBER(4), EVD_STATUS_UNSUPPORTED, "unknown verb");
	assert_int_equal(evd_ping(f->c, NULL), -EOPNOTSUPP);
}

int
main(void)
{
#define OPEN(test) \
	cmocka_unit_test_setup_teardown(test, fake_setup, fake_teardown)
	const struct CMUnitTest tests[] = {
		OPEN(test_resolve_gives_ids),
		OPEN(test_resolve_refused),
		OPEN(test_wrong_answer_is_a_protocol_error),
		OPEN(test_requests_time_out),
		OPEN(test_delays),
		OPEN(test_requests_started),
		OPEN(test_list),
		OPEN(test_status),
		OPEN(test_timers),
		OPEN(test_reload_and_restart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
