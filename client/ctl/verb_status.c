/* eventctl status: one session, or the daemon, and what to do if it is not as
 * it should be. One thread. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "ctl.h"
#include "session.h"
#include "table.h"
#include "text.h"
#include "when.h"

enum {
	TITLE_WIDTH = 10,
};

static void
print_title(struct ctl *ctl, const char *title)
{
	fprintf(ctl->out, "%*s: ", TITLE_WIDTH, title);
}

__attribute__((format(printf, 3, 4))) static void
print_field(struct ctl *ctl, const char *title, const char *format, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	print_title(ctl, title);
	escape_text(ctl->out, text);
	fputc('\n', ctl->out);
}

/* A text of several lines, each below the other. */
static void
print_lines(struct ctl *ctl, const char *title, const char *text)
{
	size_t n;

	for (; *text; title = "", text += n, text += *text == '\n') {
		n = strcspn(text, "\n");
		if (*title)
			print_title(ctl, title);
		else
			fprintf(ctl->out, "%*s", TITLE_WIDTH + 2, "");
		escape_write(ctl->out, text, n, ESCAPE_KEEP_LINES);
		fputc('\n', ctl->out);
	}
}

static void
print_time(struct ctl *ctl, const char *title, int64_t ns)
{
	char at[WHEN_TEXT_SIZE], span[WHEN_TEXT_SIZE];
	int64_t now = when_now_ns();

	if (ns == 0)
		return;
	when_format_local(ns, at, sizeof(at));
	span_format(ns < now ? now - ns : ns - now, span, sizeof(span));
	print_field(
		ctl, title, ns < now ? "%s (%s ago)" : "%s (in %s)", at, span);
}

/* "accepted 12, handled 10 ...": those that are not 0. */
static void
print_counters(struct ctl *ctl, const uint64_t counters[EVD_N_COUNTERS])
{
	const char *between = "";

	print_title(ctl, "Events");
	for (int i = 0; i < EVD_N_COUNTERS; i++) {
		if (counters[i] == 0 && i != EVD_COUNTER_ACCEPTED &&
			i != EVD_COUNTER_HANDLED)
			continue;
		fprintf(ctl->out, "%s%" PRIu64 " %s", between, counters[i],
			evd_counter_name(i));
		between = ", ";
	}
	fputc('\n', ctl->out);
}

/* ---- a session ---- */

static void
print_state(struct ctl *ctl, const struct evd_session *s)
{
	enum table_style style = session_style(s);

	print_title(ctl, "State");
	fputs(style_begin(style, ctl->color), ctl->out);
	escape_text(ctl->out, evd_session_state(s));
	fputs(style_end(style, ctl->color), ctl->out);
	if (evd_session_restarts(s))
		fprintf(ctl->out, ", restarted %" PRIu32 " time%s",
			evd_session_restarts(s),
			evd_session_restarts(s) == 1 ? "" : "s");
	fputc('\n', ctl->out);
	print_lines(ctl, "Reason", evd_session_reason(s));
	if (*evd_session_exit(s))
		print_field(ctl, "Last exit", "%s", evd_session_exit(s));
}

/* What can be done about a session that is not up. */
static void
print_remedy(struct ctl *ctl, const struct evd_session *s, const char *alias)
{
	const char *state = evd_session_state(s);
	const char *origin = evd_session_origin(s);

	if (strcmp(state, "failed") == 0)
		print_field(ctl, "To do", "%s%s%seventctl restart %s",
			*origin ? "put it right (" : "", *origin ? origin : "",
			*origin ? "), then: " : "", alias);
	else if (strcmp(state, "backoff") == 0)
		print_field(ctl, "To do",
			"wait, or start it now: eventctl restart %s", alias);
}

static void
print_age(struct ctl *ctl, uint64_t age_s)
{
	char span[WHEN_TEXT_SIZE];

	if (age_s > INT64_MAX / NS_PER_S)
		age_s = INT64_MAX / NS_PER_S;
	span_format((int64_t)age_s * NS_PER_S, span, sizeof(span));
	print_field(ctl, "Age", "%s", span);
}

static void
print_mailbox(struct ctl *ctl, const struct evd_session *s)
{
	char used[32], max[32];

	size_format(evd_session_queued_bytes(s), used, sizeof(used));
	size_format(evd_session_max_bytes(s), max, sizeof(max));
	print_field(ctl, "Mailbox",
		"%" PRIu64 " of %" PRIu64 " events, %s of %s",
		evd_session_counter(s, EVD_COUNTER_QUEUED),
		evd_session_max_events(s), used, max);
	if (evd_session_is_paused(s))
		print_field(
			ctl, "Paused", "eventctl queue resume lets it go on");
	if (strcmp(evd_session_overflow(s), "block") != 0)
		print_field(ctl, "Overflow", "%s", evd_session_overflow(s));
	if (evd_session_stashed(s))
		print_field(ctl, "Aside", "%" PRIu64, evd_session_stashed(s));
	if (evd_session_repeated(s))
		print_field(ctl, "Repeated", "%" PRIu64 " posts by key",
			evd_session_repeated(s));
	if (evd_session_state_keys(s))
		print_field(ctl, "State",
			"%" PRIu32 " durable values, %" PRIu64 " bytes",
			evd_session_state_keys(s), evd_session_state_size(s));
	if (evd_session_denied(s))
		print_field(ctl, "Denied", "%" PRIu64 " requests, by policy",
			evd_session_denied(s));
	if (evd_session_parked(s))
		print_field(ctl, "Waiting", "posts for room: %" PRIu64,
			evd_session_parked(s));
}

static void
print_aliases(struct ctl *ctl, const struct evd_session *s)
{
	const char *alias;

	if (evd_session_n_aliases(s) < 2)
		return;
	print_title(ctl, "Aliases");
	for (size_t i = 0; (alias = evd_session_alias(s, i)); i++) {
		fputs(i ? ", " : "", ctl->out);
		escape_text(ctl->out, alias);
	}
	fputc('\n', ctl->out);
}

static void
print_origin(struct ctl *ctl, const struct evd_session *s)
{
	if (evd_session_pid(s))
		print_field(ctl, "Peer",
			"%s, process %" PRIu32 " of uid %" PRIu32,
			evd_session_peer(s), evd_session_pid(s),
			evd_session_uid(s));
	else if (!strcmp(evd_session_kind(s), "client"))
		print_field(ctl, "Peer", "nobody consumes its events");
	if (*evd_session_mode(s) && strcmp(evd_session_mode(s), "exclusive"))
		print_field(ctl, "Mode", "%s, bound by %" PRIu32,
			evd_session_mode(s), evd_session_consumers(s));
	if (*evd_session_binds(s))
		print_field(ctl, "Binds", "%s", evd_session_binds(s));
	if (*evd_session_origin(s))
		print_field(ctl, "File", "%s", evd_session_origin(s));
}

static void
print_family(struct ctl *ctl, const struct evd_session *s)
{
	if (*evd_session_group(s))
		print_field(ctl, "Group", "%s", evd_session_group(s));
	if (evd_session_parent(s))
		print_field(ctl, "Parent", "session %" PRIu64,
			evd_session_parent(s));
	if (evd_session_children(s))
		print_field(ctl, "Children", "%" PRIu64 ": eventctl tree",
			evd_session_children(s));
}

static void
print_ties(struct ctl *ctl, const struct evd_session *s)
{
	const struct {
		const char *word;
		uint32_t n;
	} ties[] = {
		{"watches", evd_session_watches(s)},
		{"watched by", evd_session_watchers(s)},
		{"links", evd_session_links(s)},
		{"in line for", evd_session_claims(s)},
	};
	const char *between = "";

	for (size_t i = 0; i < sizeof(ties) / sizeof(*ties); i++) {
		if (!ties[i].n)
			continue;
		if (!*between)
			print_title(ctl, "Ties");
		fprintf(ctl->out, "%s%s %" PRIu32, between, ties[i].word,
			ties[i].n);
		between = ", ";
	}
	if (*between)
		fputc('\n', ctl->out);
}

/* `3 of 10: 2 for an answer, 1 for a time; stack up to 1.2 KiB` */
static void
print_waits(struct ctl *ctl, const struct evd_session *s)
{
	const struct {
		const char *what;
		uint32_t n;
	} parts[] = {
		{"a time", evd_session_waiting_time(s)},
		{"an answer", evd_session_waiting_answer(s)},
		{"an event", evd_session_waiting_event(s)},
	};
	char text[160] = "", size[32];
	size_t n = 0;

	if (!evd_session_waiting(s))
		return;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (parts[i].n)
			n += (size_t)snprintf(text + n, sizeof(text) - n,
				"%s%" PRIu32 " for %s", n ? ", " : ": ",
				parts[i].n, parts[i].what);
	if (evd_session_stack_high(s)) {
		size_format(evd_session_stack_high(s), size, sizeof(size));
		snprintf(text + n, sizeof(text) - n, "; stack up to %s", size);
	}
	print_field(ctl, "Waiting", "%" PRIu32 " of %" PRIu32 "%s",
		evd_session_waiting(s), evd_session_concurrency(s), text);
}

/* `worker, thread 812 runs block (id 7) for 12 s: stuck` */
static void
print_run(struct ctl *ctl, const struct evd_session *s)
{
	const char *executor = evd_session_executor(s);
	char span[WHEN_TEXT_SIZE];

	if (strcmp(executor, "loop") == 0)
		return;
	span_format((int64_t)evd_session_running_ns(s), span, sizeof(span));
	if (!*evd_session_running_event(s))
		print_field(ctl, "Executor", "%s%s", executor,
			evd_session_is_away(s) ? ", waits for a thread" : "");
	else
		print_field(ctl, "Executor",
			"%s, thread %" PRIu32 " runs %s for %s%s", executor,
			evd_session_running_thread(s),
			evd_session_running_event(s), span,
			evd_session_is_stuck(s) ? ": it is stuck" : "");
	if (evd_session_stuck_ever(s))
		print_field(ctl, "Stuck", "%" PRIu32 " times: see the log",
			evd_session_stuck_ever(s));
}

static void
print_session(struct ctl *ctl, const struct evd_session *s, const char *alias)
{
	uint64_t counters[EVD_N_COUNTERS];
	char memory[32];

	for (int i = 0; i < EVD_N_COUNTERS; i++)
		counters[i] = evd_session_counter(s, i);
	size_format(evd_session_memory(s), memory, sizeof(memory));
	escape_text(ctl->out, alias);
	fputc('\n', ctl->out);
	print_state(ctl, s);
	print_time(ctl, "Restart", evd_session_restart_ns(s));
	print_remedy(ctl, s, alias);
	print_time(ctl, "Started", evd_session_started_ns(s));
	print_age(ctl, evd_session_age(s));
	print_field(ctl, "Session", "%" PRIu64 ", kind %s, loop %" PRIu32,
		evd_session_id(s), evd_session_kind(s), evd_session_loop(s));
	print_run(ctl, s);
	print_waits(ctl, s);
	print_aliases(ctl, s);
	print_family(ctl, s);
	print_ties(ctl, s);
	print_origin(ctl, s);
	print_counters(ctl, counters);
	print_mailbox(ctl, s);
	print_field(ctl, "Memory", "%s", memory);
}

/* ---- the daemon ---- */

/* Nanoseconds as they stand, for machines. */
static void
late_json(struct json *j, const uint64_t late[4])
{
	json_uint(j, "late_count", late[0]);
	json_uint(j, "late_p50_ns", late[1]);
	json_uint(j, "late_p99_ns", late[2]);
	json_uint(j, "late_max_ns", late[3]);
}

static void
loop_late(const struct evd_daemon *d, size_t i, uint64_t late[4])
{
	for (int value = 0; value < 4; value++)
		late[value] =
			evd_daemon_loop(d, i, EVD_LOOP_LATE_COUNT + value);
}

static void
daemon_late(const struct evd_daemon *d, uint64_t late[4])
{
	for (int value = 0; value < 4; value++)
		late[value] = evd_daemon_late(d, EVD_LOOP_LATE_COUNT + value);
}

/* Of all loops together, and the histogram. */
static void
lateness_json(struct json *j, const struct evd_daemon *d)
{
	uint64_t late[4], n, below;

	daemon_late(d, late);
	json_object(j, "lateness");
	late_json(j, late);
	json_array(j, "buckets");
	for (size_t i = 0; (n = evd_daemon_late_bucket(d, i, &below)); i++) {
		json_object(j, NULL);
		if (below != UINT64_MAX)
			json_uint(j, "below_ns", below);
		json_uint(j, "count", n);
		json_object_end(j);
	}
	json_array_end(j);
	json_object_end(j);
}

static void
print_lateness(struct ctl *ctl, const struct evd_daemon *d)
{
	uint64_t late[4];

	daemon_late(d, late);
	if (late[0])
		print_field(ctl, "Lateness",
			"%.3f ms at most for half of %" PRIu64
			" delays, %.3f ms for 99 %%, %.3f ms for all",
			(double)late[1] / 1e6, late[0], (double)late[2] / 1e6,
			(double)late[3] / 1e6);
}

static void
batching_json(struct json *j, const struct evd_daemon *d)
{
	uint64_t late[4];

	json_uint(j, "budget", evd_daemon_budget(d));
	json_uint(j, "turn_budget", evd_daemon_turn_budget(d));
	json_bool(j, "profile", evd_daemon_profile(d));
	json_array(j, "loop");
	for (size_t i = 0; i < evd_daemon_loops(d); i++) {
		json_object(j, NULL);
		json_uint(j, "turns", evd_daemon_loop(d, i, EVD_LOOP_TURNS));
		json_uint(j, "runnable",
			evd_daemon_loop(d, i, EVD_LOOP_RUNNABLE));
		json_uint(j, "queued", evd_daemon_loop(d, i, EVD_LOOP_QUEUED));
		json_uint(j, "timers", evd_daemon_loop(d, i, EVD_LOOP_TIMERS));
		loop_late(d, i, late);
		late_json(j, late);
		json_object_end(j);
	}
	json_array_end(j);
}

/* Those that have been used. */
static void
print_pools(struct ctl *ctl, const struct evd_daemon *d)
{
	const char *name;

	for (size_t i = 0; (name = evd_daemon_pool_name(d, i)); i++)
		print_field(ctl, i ? "" : "Pools",
			"%s: %" PRIu64 " threads, %" PRIu64 " busy, %" PRIu64
			" sessions, %" PRIu64 " of them wait, %" PRIu64
			" runs, %" PRIu64 " stuck",
			name, evd_daemon_pool(d, i, EVD_POOL_THREADS),
			evd_daemon_pool(d, i, EVD_POOL_BUSY),
			evd_daemon_pool(d, i, EVD_POOL_SESSIONS),
			evd_daemon_pool(d, i, EVD_POOL_QUEUED),
			evd_daemon_pool(d, i, EVD_POOL_RUNS),
			evd_daemon_pool(d, i, EVD_POOL_STUCK));
}

static void
write_pools(struct json *j, const struct evd_daemon *d)
{
	const char *name;

	json_array(j, "pools");
	for (size_t i = 0; (name = evd_daemon_pool_name(d, i)); i++) {
		json_object(j, NULL);
		json_string(j, "name", name);
		json_uint(
			j, "threads", evd_daemon_pool(d, i, EVD_POOL_THREADS));
		json_uint(j, "busy", evd_daemon_pool(d, i, EVD_POOL_BUSY));
		json_uint(j, "queued", evd_daemon_pool(d, i, EVD_POOL_QUEUED));
		json_uint(j, "sessions",
			evd_daemon_pool(d, i, EVD_POOL_SESSIONS));
		json_uint(j, "runs", evd_daemon_pool(d, i, EVD_POOL_RUNS));
		json_uint(j, "stuck", evd_daemon_pool(d, i, EVD_POOL_STUCK));
		json_uint(j, "stuck_ever",
			evd_daemon_pool(d, i, EVD_POOL_STUCK_EVER));
		json_object_end(j);
	}
	json_array_end(j);
}

static void
print_loops(struct ctl *ctl, const struct evd_daemon *d)
{
	for (size_t i = 0; i < evd_daemon_loops(d); i++)
		print_field(ctl, i ? "" : "Loops",
			"%zu: %" PRIu64 " turns, %" PRIu64
			" sessions to run, %" PRIu64 " events queued, %" PRIu64
			" timers",
			i, evd_daemon_loop(d, i, EVD_LOOP_TURNS),
			evd_daemon_loop(d, i, EVD_LOOP_RUNNABLE),
			evd_daemon_loop(d, i, EVD_LOOP_QUEUED),
			evd_daemon_loop(d, i, EVD_LOOP_TIMERS));
	print_pools(ctl, d);
	print_field(ctl, "Budget", "%" PRIu32 " events, %" PRIu32 " a turn%s",
		evd_daemon_budget(d), evd_daemon_turn_budget(d),
		evd_daemon_profile(d) ? "; profiling is on" : "");
}

static void
write_memory(struct json *j, const struct evd_daemon *d)
{
	json_object(j, "memory_parts");
	json_uint(j, "proportional",
		evd_daemon_memory_part(d, EVD_MEMORY_PROPORTIONAL));
	json_uint(j, "private", evd_daemon_memory_part(d, EVD_MEMORY_PRIVATE));
	json_uint(j, "shared", evd_daemon_memory_part(d, EVD_MEMORY_SHARED));
	json_uint(j, "swap", evd_daemon_memory_part(d, EVD_MEMORY_SWAP));
	json_object_end(j);
}

/* `5.7 MiB resident: 3.1 MiB its own, 2.6 MiB shared` */
static void
print_memory(struct ctl *ctl, const struct evd_daemon *d)
{
	char all[32], own[32], shared[32], swap[32];

	size_format(evd_daemon_memory(d), all, sizeof(all));
	size_format(evd_daemon_memory_part(d, EVD_MEMORY_PRIVATE), own,
		sizeof(own));
	size_format(evd_daemon_memory_part(d, EVD_MEMORY_SHARED), shared,
		sizeof(shared));
	size_format(
		evd_daemon_memory_part(d, EVD_MEMORY_SWAP), swap, sizeof(swap));
	if (!evd_daemon_memory_part(d, EVD_MEMORY_PROPORTIONAL))
		print_field(ctl, "Memory", "%s resident", all);
	else
		print_field(ctl, "Memory",
			"%s resident: %s its own, %s shared; %s swapped", all,
			own, shared, swap);
}

static void
daemon_json(struct json *j, const struct evd_daemon *d)
{
	json_object(j, NULL);
	json_string(j, "server", evd_daemon_server(d));
	json_string(j, "state", evd_daemon_state(d));
	json_uint(j, "pid", evd_daemon_pid(d));
	json_time(j, "started", evd_daemon_started_ns(d));
	write_pools(j, d);
	json_uint(j, "loops", evd_daemon_loops(d));
	json_uint(j, "sessions", evd_daemon_sessions(d));
	json_uint(j, "failed", evd_daemon_failed(d));
	json_uint(j, "connections", evd_daemon_connections(d));
	json_object(j, "events");
	for (int i = 0; i < EVD_N_COUNTERS; i++)
		counter_write_json(j, i, evd_daemon_counter(d, i));
	json_object_end(j);
	json_object(j, "dead_letters");
	json_uint(j, "kept", evd_daemon_dead_letters(d));
	json_uint(j, "bytes", evd_daemon_dead_letter_bytes(d));
	json_uint(j, "ever", evd_daemon_dead_letters_ever(d));
	json_uint(j, "forgotten", evd_daemon_dead_letters_forgotten(d));
	json_object_end(j);
	json_uint(j, "late_replies", evd_daemon_late_replies(d));
	json_uint(j, "denied", evd_daemon_denied(d));
	batching_json(j, d);
	lateness_json(j, d);
	json_uint(j, "memory", evd_daemon_memory(d));
	write_memory(j, d);
	json_object_end(j);
	json_line_end(j);
}

static void
print_sessions(struct ctl *ctl, const struct evd_daemon *d)
{
	uint64_t failed = evd_daemon_failed(d);

	print_field(ctl, "Sessions", "%" PRIu64 ", %" PRIu64 " failed%s",
		evd_daemon_sessions(d), failed,
		failed ? ": eventctl list shows which" : "");
}

static void
print_daemon(struct ctl *ctl, const struct evd_daemon *d)
{
	uint64_t counters[EVD_N_COUNTERS];

	for (int i = 0; i < EVD_N_COUNTERS; i++)
		counters[i] = evd_daemon_counter(d, i);
	escape_text(ctl->out, evd_daemon_server(d));
	fputc('\n', ctl->out);
	print_field(ctl, "State", "%s", evd_daemon_state(d));
	print_time(ctl, "Started", evd_daemon_started_ns(d));
	print_field(ctl, "Socket", "%s", evd_socket(ctl->evd));
	print_field(ctl, "Process", "%" PRIu32 ", %" PRIu32 " loop%s",
		evd_daemon_pid(d), evd_daemon_loops(d),
		evd_daemon_loops(d) == 1 ? "" : "s");
	print_memory(ctl, d);
	print_sessions(ctl, d);
	print_field(ctl, "Clients", "%" PRIu64, evd_daemon_connections(d));
	print_counters(ctl, counters);
	print_loops(ctl, d);
	print_lateness(ctl, d);
	if (evd_daemon_dead_letters(d))
		print_field(ctl, "Dead",
			"%" PRIu64 " letters: eventctl dead list shows them",
			evd_daemon_dead_letters(d));
	if (evd_daemon_late_replies(d))
		print_field(ctl, "Late", "%" PRIu64 " replies",
			evd_daemon_late_replies(d));
	if (evd_daemon_denied(d))
		print_field(ctl, "Denied",
			"%" PRIu64 " requests, by policy: see the log",
			evd_daemon_denied(d));
}

static int
print_report(
	struct ctl *ctl, const struct evd_report *report, const char *alias)
{
	const struct evd_session *s = evd_report_session(report);
	const struct evd_daemon *d = evd_report_daemon(report);

	if (alias ? !s : !d)
		return ctl_fail(ctl, EVD_STATUS_PROTOCOL,
			"the daemon's report lacks what was asked for");
	if (ctl->as_json && alias)
		session_write_json(&ctl->json, s);
	else if (ctl->as_json)
		daemon_json(&ctl->json, d);
	else if (alias)
		print_session(ctl, s, alias);
	else
		print_daemon(ctl, d);
	return 0;
}

int
verb_status(struct ctl *ctl)
{
	const char *alias = ctl->subject = ctl_word(ctl, 0);
	struct evd_report *report;
	int r = 0;

	if (alias)
		r = ctl_check_name(ctl, "alias", alias, EVD_ALIAS_MAX);
	if (r == 0)
		r = ctl_connect(ctl);
	if (r)
		return r;
	if (evd_status(ctl->evd, alias, &report) < 0)
		return ctl_fail_evd(ctl);
	r = print_report(ctl, report, alias);
	evd_report_free(report);
	return r;
}
