/* eventctl bind: see bind.h. An event is settled when it has been printed and
 * handed over, or when its command has ended; what is not settled when we end
 * goes back to the daemon. One thread. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>

#include "bind.h"
#include "text.h"

enum {
	RECONNECT_MIN_MS = 100,
	RECONNECT_MAX_MS = 5000,
	UNBIND_MS = 2000,  /* how long we wait for the daemon at the end */
	MAX_WINDOW = 1000, /* of --count */
	ERROR_TEXT = 4096, /* bytes of output that tell why a call failed */
};

/* ---- one event ---- */

/* A caller or a connection that has gone is no error of ours. */
static void
answer(struct bind *b, const struct evd_event *event, const char *data,
	size_t size)
{
	int r = evd_reply(b->ctl->evd, evd_event_call(event), data, size);

	if (r < 0 && r != -EPIPE && r != -ENOTCONN && r != -ESRCH)
		ctl_note(b->ctl, "the reply could not be sent: %s",
			evd_last_error(b->ctl->evd));
}

/* What the command printed says why, or else how it ended. */
static void
answer_error(struct bind *b, const struct evd_event *event,
	struct outcome *outcome, const char *how)
{
	char text[ERROR_TEXT];
	const char *why = outcome->output ? outcome->output : "";
	size_t size = strlen(why);

	while (size > 0 && why[size - 1] == '\n')
		size--;
	if (size > 0 && size < sizeof(text) && utf8_is_valid(why, size))
		snprintf(text, sizeof(text), "%.*s", (int)size, why);
	else
		snprintf(text, sizeof(text), "the command %s", how);
	evd_reply_error(b->ctl->evd, evd_event_call(event), text);
}

static void
on_outcome(
	struct bind *b, const struct evd_event *event, struct outcome *outcome)
{
	char buffer[128];
	const char *how = outcome_text(outcome, buffer, sizeof(buffer));

	if (evd_event_call(event) && how)
		answer_error(b, event, outcome, how);
	else if (evd_event_call(event))
		answer(b, event, outcome->output, outcome->size);
	if (how)
		ctl_note(b->ctl, "event %" PRIu64 ", %s: the command %s",
			evd_event_id(event), evd_event_name(event), how);
	if (b->ctl->as_json)
		bind_print(b, event, outcome);
}

static int
handle_exec(struct bind *b, const struct evd_event *event)
{
	bool capture = evd_event_call(event) || b->ctl->as_json;
	struct outcome outcome;
	int r = bind_run(b, event, capture, &outcome);

	/* one that we had to stop did not handle its event */
	if (r == 0 && !b->stop_signal)
		on_outcome(b, event, &outcome);
	outcome_deinit(&outcome);
	return r ? r : bind_output_flush(b);
}

/* As it came, but for the headers of posts; a failure is told by an event. */
static void
send_on(struct bind *b, const struct evd_event *event)
{
	struct evd_post_options opt = {
		.size = sizeof(opt),
		.forward = evd_event_call(event),
		.priority = (uint32_t)evd_event_priority(event),
	};
	int64_t r = evd_post_opt(b->ctl->evd, b->forward, evd_event_name(event),
		evd_event_data(event), evd_event_size(event), &opt);

	if (r < 0)
		ctl_note(b->ctl, "event %" PRIu64 " could not be forwarded: %s",
			evd_event_id(event), evd_last_error(b->ctl->evd));
	else
		evd_flush(b->ctl->evd);
}

static int
handle_print(struct bind *b, const struct evd_event *event)
{
	int r;

	bind_print(b, event, NULL);
	r = bind_output_flush(b);
	if (r || b->stop_signal)
		return r;
	if (b->forward)
		send_on(b, event);
	else if (evd_event_call(event))
		answer(b, event, b->reply, b->reply ? strlen(b->reply) : 0);
	return r;
}

static int
on_delivery(struct bind *b, const struct evd_event *event)
{
	int r = b->exec ? handle_exec(b, event) : handle_print(b, event);

	if (r || b->stop_signal)
		return r;
	evd_settle(b->ctl->evd, event);
	if (b->counted)
		b->left--;
	return 0;
}

static int
on_disconnected(struct bind *b, const struct evd_event *event)
{
	const char *why = evd_event_text(event);

	if (!*why)
		why = evd_status_text(EVD_STATUS_LOST);
	if (ctl_has(b->ctl, OPT_RECONNECT)) {
		ctl_note(b->ctl, "%s; connecting again", why);
		return 0;
	}
	return ctl_fail_text(b->ctl, EVD_STATUS_LOST, why,
		"with --reconnect bind goes on when the daemon is back");
}

static int
on_event(struct bind *b, const struct evd_event *event)
{
	switch (evd_event_type(event)) {
	case EVD_DELIVERY:
		return on_delivery(b, event);
	case EVD_UNBOUND:
		b->ctl->subject = evd_event_alias(event);
		return ctl_fail(b->ctl, evd_event_status(event),
			"the daemon took the alias back: %s",
			evd_event_text(event));
	case EVD_RESPONSE:
		if (evd_event_status(event))
			return ctl_fail(b->ctl, evd_event_status(event), "%s",
				evd_event_text(event));
		ctl_detail(b->ctl, "bound");
		return 0;
	case EVD_CLOSING:
		ctl_detail(b->ctl, "the daemon is about to stop");
		return 0;
	case EVD_POST_FAILED:
		ctl_note(b->ctl, "%s: %s", b->forward, evd_event_text(event));
		return 0;
	case EVD_GAP:
		return bind_print_gap(b, event);
	case EVD_CALL_CANCELLED:
		ctl_detail(b->ctl, "a caller waits no more");
		return 0;
	case EVD_DISCONNECTED:
		return on_disconnected(b, event);
	case EVD_RECONNECTED:
		ctl_note(b->ctl, "connected again after %" PRIu64 " ms",
			evd_event_gap_ms(event));
		return 0;
	default:
		return 0;
	}
}

/* ---- the loop ---- */

static bool
is_done(const struct bind *b)
{
	return b->stop_signal || (b->counted && b->left == 0);
}

/* Until something comes: events, a signal, or that nobody reads our output any
 * more. 0, or an exit code. */
static int
wait_for_more(struct bind *b)
{
	struct evd *evd = b->ctl->evd;
	struct pollfd fds[3] = {
		{.fd = evd_fd(evd), .events = (short)evd_events(evd)},
		{.fd = b->signal_fd, .events = POLLIN},
		{.fd = fileno(b->out)},
	};
	int timeout_ms = evd_timeout_ms(evd);

	if (poll(fds, 3, timeout_ms) < 0 && errno != EINTR)
		return ctl_fail(b->ctl, EVD_STATUS_INTERNAL, "poll: %s",
			strerror(errno));
	if (fds[1].revents)
		bind_signals_read(b);
	if (fds[2].revents & (POLLERR | POLLHUP))
		return CTL_EXIT_PIPE;
	return 0;
}

static int
process(struct bind *b)
{
	int r = evd_process(b->ctl->evd);

	if (r < 0)
		return ctl_fail_evd(b->ctl);
	return r > 0 ? 0 : wait_for_more(b);
}

static int
loop(struct bind *b)
{
	const struct evd_event *event;
	int code = 0, r;

	while (code == 0 && !is_done(b)) {
		r = evd_next(b->ctl->evd, &event);
		if (r > 0)
			code = on_event(b, event);
		else if (r == 0)
			code = process(b);
		else
			code = ctl_fail_evd(b->ctl);
	}
	return code;
}

/* ---- beginning and end ---- */

static int
bind_all(struct bind *b)
{
	struct evd_bind_options opt = b->opt;
	const char *alias;
	uint32_t window = 0;

	if (b->counted)
		window = b->left < MAX_WINDOW ? (uint32_t)b->left : MAX_WINDOW;
	if (b->exec)
		window = 1;
	for (size_t i = 0; (alias = ctl_word(b->ctl, i)); i++) {
		b->ctl->subject = alias;
		opt.window_events = window;
		if (opt.if_taken) { /* the answer comes to the loop */
			if (evd_bind_opt_start(b->ctl->evd, alias, &opt) < 0)
				return ctl_fail_evd(b->ctl);
			continue;
		}
		if (evd_bind_opt(b->ctl->evd, alias, &opt) < 0)
			return ctl_fail_evd(b->ctl);
		ctl_detail(b->ctl, "bound %s", alias);
	}
	b->ctl->subject = ctl_word(b->ctl, 0);
	return 0;
}

/* That the daemon has answered says that it has what we settled. */
static void
finish(struct bind *b)
{
	if (!b->ctl->evd || !evd_is_connected(b->ctl->evd))
		return;
	evd_set_reconnect(b->ctl->evd, 0, 0);
	evd_set_timeout(b->ctl->evd, UNBIND_MS);
	if (evd_flush(b->ctl->evd) == 0)
		evd_ping(b->ctl->evd, NULL);
}

static uint32_t
mode_of(const struct ctl *ctl)
{
	if (ctl_has(ctl, OPT_SHARED))
		return EVD_BIND_SHARED;
	return ctl_has(ctl, OPT_FANOUT) ? EVD_BIND_FANOUT : EVD_BIND_EXCLUSIVE;
}

static int
read_options(struct bind *b, struct evd_bind_options *opt)
{
	uint64_t events = 0;
	int r = ctl_count(b->ctl, OPT_MAX_EVENTS, &events);

	*opt = (struct evd_bind_options){
		.size = sizeof(*opt),
		.if_taken = ctl_if_taken(b->ctl),
		.allow_replace = ctl_has(b->ctl, OPT_ALLOW_REPLACE),
		.overflow = ctl_value(b->ctl, OPT_OVERFLOW),
		.mode = mode_of(b->ctl),
		.durable = ctl_has(b->ctl, OPT_DURABLE),
	};
	opt->max_events = events < UINT32_MAX ? (uint32_t)events : UINT32_MAX;
	return r ? r : ctl_count(b->ctl, OPT_MAX_BYTES, &opt->max_bytes);
}

static int
check_options(struct bind *b)
{
	const char *alias, *name = ctl_value(b->ctl, OPT_NAME);
	int r = 0;

	for (size_t i = 0; r == 0 && (alias = ctl_word(b->ctl, i)); i++)
		r = ctl_check_name(b->ctl, "alias", alias, EVD_ALIAS_MAX);
	if (r)
		return r;
	if (r == 0 && b->forward)
		r = ctl_check_name(b->ctl, "alias", b->forward, EVD_ALIAS_MAX);
	if (r)
		return r;
	if (b->forward && (b->exec || b->reply))
		return ctl_usage(b->ctl,
			"--forward goes with neither --exec nor --reply-with");
	if (ctl_has(b->ctl, OPT_SHARED) && ctl_has(b->ctl, OPT_FANOUT))
		return ctl_usage(
			b->ctl, "--shared and --fanout exclude each other");
	if (b->exec && b->reply)
		return ctl_usage(
			b->ctl, "--exec and --reply-with exclude each other");
	if (b->exec && ctl_has(b->ctl, OPT_RAW))
		return ctl_usage(b->ctl, "--exec prints no payload: no --raw");
	if (ctl_has(b->ctl, OPT_NULL_OUT) && !ctl_has(b->ctl, OPT_RAW))
		return ctl_usage(b->ctl, "--null goes with --raw");
	if (name && (!*name || strlen(name) > EVD_NAME_MAX))
		return ctl_usage(
			b->ctl, "--name takes 1 to %d bytes", EVD_NAME_MAX);
	b->counted = ctl_has(b->ctl, OPT_COUNT);
	r = read_options(b, &b->opt);
	return r ? r : ctl_count(b->ctl, OPT_COUNT, &b->left);
}

static int
connect(struct bind *b)
{
	const char *name = ctl_value(b->ctl, OPT_NAME);
	int r = ctl_handle(b->ctl);

	if (r)
		return r;
	if (name && evd_set_name(b->ctl->evd, name) < 0)
		return ctl_fail_evd(b->ctl);
	evd_set_manual_settle(b->ctl->evd, true);
	r = ctl_connect(b->ctl);
	if (r == 0 && ctl_has(b->ctl, OPT_RECONNECT))
		evd_set_reconnect(
			b->ctl->evd, RECONNECT_MIN_MS, RECONNECT_MAX_MS);
	return r;
}

/* 'ALIAS EVENT [DATA]'; the data may have blanks. */
static int
leave_will(struct bind *b)
{
	const char *text = ctl_value(b->ctl, OPT_WILL), *data;
	char alias[EVD_ALIAS_MAX + 1], event[EVD_EVENT_MAX + 1];
	int n = 0;

	if (!text)
		return 0;
	if (sscanf(text, "%255s %127s%n", alias, event, &n) != 2 ||
		(text[n] && text[n] != ' '))
		return ctl_usage(b->ctl,
			"--will takes 'ALIAS EVENT [DATA]', not '%s'", text);
	data = text[n] ? text + n + 1 : "";
	if (evd_will(b->ctl->evd, alias, event, data, strlen(data)) < 0)
		return ctl_fail_evd(b->ctl);
	return 0;
}

static int
run(struct bind *b)
{
	int r = check_options(b);

	if (r == 0)
		r = connect(b);
	if (r)
		return r;
	r = bind_signals_init(b);
	if (r < 0)
		return ctl_fail(b->ctl, EVD_STATUS_INTERNAL, "signals: %s",
			strerror(-r));
	r = bind_output_init(b);
	if (r == 0)
		r = leave_will(b);
	if (r == 0)
		r = bind_all(b);
	return r ? r : loop(b);
}

int
verb_bind(struct ctl *ctl)
{
	struct bind b = {.ctl = ctl,
		.exec = ctl_value(ctl, OPT_EXEC),
		.reply = ctl_value(ctl, OPT_REPLY_WITH),
		.forward = ctl_value(ctl, OPT_FORWARD),
		.signal_fd = -1};
	int code;

	ctl->subject = ctl_word(ctl, 0);
	code = run(&b);
	if (b.out && ctl->as_json && code != CTL_EXIT_PIPE)
		bind_output_flush(&b); /* the error */
	bind_output_deinit(&b);
	bind_signals_deinit(&b);
	finish(&b);
	return b.stop_signal ? 128 + b.stop_signal : code;
}
