/* Sessions for people and programs: see session.h. One thread. */
#include "session.h"

#include <inttypes.h>
#include <string.h>

#include "ctl.h"

void
counter_write_json(struct json *j, int counter, uint64_t value)
{
	json_uint(j, evd_counter_name(counter), value);
}

static void
write_counters(struct json *j, const struct evd_session *s)
{
	json_object(j, "events");
	for (int i = 0; i < EVD_N_COUNTERS; i++)
		counter_write_json(j, i, evd_session_counter(s, i));
	json_object_end(j);
}

static void
write_mailbox(struct json *j, const struct evd_session *s)
{
	json_object(j, "mailbox");
	json_uint(j, "queued_bytes", evd_session_queued_bytes(s));
	json_uint(j, "max_events", evd_session_max_events(s));
	json_uint(j, "max_bytes", evd_session_max_bytes(s));
	json_uint(j, "parked", evd_session_parked(s));
	json_bool(j, "paused", evd_session_is_paused(s));
	json_string(j, "overflow", evd_session_overflow(s));
	if (evd_session_high_events(s)) {
		json_uint(j, "high_events", evd_session_high_events(s));
		if (evd_session_high_bytes(s))
			json_uint(j, "high_bytes", evd_session_high_bytes(s));
		json_bool(j, "above", evd_session_is_above(s));
	}
	json_uint(j, "stashed", evd_session_stashed(s));
	json_uint(j, "repeated", evd_session_repeated(s));
	json_object_end(j);
}

static void
write_peer(struct json *j, const struct evd_session *s)
{
	if (*evd_session_mode(s)) {
		json_string(j, "mode", evd_session_mode(s));
		json_uint(j, "consumers", evd_session_consumers(s));
	}
	if (*evd_session_binds(s))
		json_string(j, "binds", evd_session_binds(s));
	if (!evd_session_pid(s))
		return;
	json_object(j, "peer");
	json_string(j, "name", evd_session_peer(s));
	json_uint(j, "pid", evd_session_pid(s));
	json_uint(j, "uid", evd_session_uid(s));
	json_object_end(j);
}

static void
write_aliases(struct json *j, const struct evd_session *s)
{
	const char *alias;

	json_array(j, "aliases");
	for (size_t i = 0; (alias = evd_session_alias(s, i)); i++)
		json_string(j, NULL, alias);
	json_array_end(j);
}

static void
write_waits(struct json *j, const struct evd_session *s)
{
	if (!evd_session_concurrency(s))
		return;
	json_uint(j, "concurrency", evd_session_concurrency(s));
	json_object(j, "waiting");
	json_uint(j, "handlers", evd_session_waiting(s));
	json_uint(j, "time", evd_session_waiting_time(s));
	json_uint(j, "answer", evd_session_waiting_answer(s));
	json_uint(j, "event", evd_session_waiting_event(s));
	json_object_end(j);
	if (evd_session_stack_high(s))
		json_uint(j, "stack_high", evd_session_stack_high(s));
}

static void
write_run(struct json *j, const struct evd_session *s)
{
	if (evd_session_stuck_ever(s))
		json_uint(j, "stuck_ever", evd_session_stuck_ever(s));
	if (!*evd_session_running_event(s))
		return;
	json_object(j, "running");
	json_string(j, "event", evd_session_running_event(s));
	json_id(j, "id", evd_session_running_event_id(s));
	json_uint(j, "ns", evd_session_running_ns(s));
	json_uint(j, "thread", evd_session_running_thread(s));
	json_bool(j, "stuck", evd_session_is_stuck(s));
	json_object_end(j);
}

static void
write_life(struct json *j, const struct evd_session *s)
{
	if (*evd_session_name(s)) {
		json_string(j, "name", evd_session_name(s));
		json_string(j, "start",
			evd_session_on_demand(s) ? "on-demand" : "at-boot");
		json_uint(j, "starts", evd_session_starts(s));
	}
	if (*evd_session_exit(s))
		json_string(j, "exit", evd_session_exit(s));
	if (*evd_session_group(s))
		json_string(j, "group", evd_session_group(s));
	if (evd_session_parent(s))
		json_id(j, "parent", evd_session_parent(s));
	json_uint(j, "children", evd_session_children(s));
	json_string(j, "executor", evd_session_executor(s));
	json_bool(j, "away", evd_session_is_away(s));
	write_run(j, s);
	write_waits(j, s);
	json_uint(j, "watches", evd_session_watches(s));
	json_uint(j, "watchers", evd_session_watchers(s));
	json_uint(j, "links", evd_session_links(s));
	json_uint(j, "claims", evd_session_claims(s));
}

void
session_write_json(struct json *j, const struct evd_session *s)
{
	json_object(j, NULL);
	json_id(j, "id", evd_session_id(s));
	write_aliases(j, s);
	json_string(j, "kind", evd_session_kind(s));
	json_string(j, "state", evd_session_state(s));
	if (*evd_session_reason(s))
		json_string(j, "reason", evd_session_reason(s));
	json_uint(j, "restarts", evd_session_restarts(s));
	write_life(j, s);
	if (evd_session_started_ns(s))
		json_time(j, "started", evd_session_started_ns(s));
	if (evd_session_restart_ns(s))
		json_time(j, "restart", evd_session_restart_ns(s));
	write_counters(j, s);
	write_mailbox(j, s);
	json_uint(j, "denied", evd_session_denied(s));
	json_uint(j, "memory", evd_session_memory(s));
	json_uint(j, "age_s", evd_session_age(s));
	json_uint(j, "loop", evd_session_loop(s));
	write_peer(j, s);
	if (*evd_session_origin(s))
		json_string(j, "origin", evd_session_origin(s));
	json_object_end(j);
	json_line_end(j);
}

enum table_style
session_style(const struct evd_session *s)
{
	const char *state = evd_session_state(s);

	if (strcmp(state, "up") == 0 || strcmp(state, "dormant") == 0)
		return TABLE_GOOD;
	return strcmp(state, "failed") == 0 ? TABLE_BAD : TABLE_WARN;
}

void
session_from(const struct evd_session *s, char *text, size_t size)
{
	if (*evd_session_origin(s))
		snprintf(text, size, "%s", evd_session_origin(s));
	else if (evd_session_pid(s))
		snprintf(text, size, "%s[%" PRIu32 "]", evd_session_peer(s),
			evd_session_pid(s));
	else
		snprintf(text, size, "-");
}
