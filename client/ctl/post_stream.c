/* eventctl post --lines and --null: posts are gathered while input is there,
 * and written whenever it pauses, so that `tail -f` works. The first failure
 * ends it. One thread. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "hint.h"
#include "post.h"

struct stream {
	struct post *post;
	struct ctl *ctl;
	uint64_t sent, failed;
	int64_t first;      /* number of the first post */
	uint64_t failed_at; /* which event failed first, 1 ...; 0: none */
	int failed_status;
	bool lost; /* the connection */
	char failed_text[512];
};

/* ---- what became of the posts ---- */

static void
on_failed(struct stream *s, const struct evd_event *event)
{
	s->failed++;
	if (s->failed_at)
		return;
	s->failed_at = evd_event_post(event) - (uint64_t)s->first + 1;
	s->failed_status = evd_event_status(event);
	snprintf(s->failed_text, sizeof(s->failed_text), "%s",
		evd_event_text(event));
}

static void
tell_id(struct stream *s, const struct evd_event *event)
{
	struct json *j = &s->ctl->json;

	if (!s->ctl->as_json) {
		fprintf(s->ctl->out, "%" PRIu64 "\n", evd_event_id(event));
		return;
	}
	json_object(j, NULL);
	json_id(j, "id", evd_event_id(event));
	json_object_end(j);
	json_line_end(j);
}

static void
take_events(struct stream *s)
{
	const struct evd_event *event;

	while (evd_next(s->ctl->evd, &event) == 1) {
		if (evd_event_type(event) == EVD_POST_FAILED)
			on_failed(s, event);
		else if (evd_event_type(event) == EVD_POST_ID)
			tell_id(s, event);
		else if (evd_event_type(event) == EVD_DISCONNECTED)
			s->lost = true;
	}
}

static bool
is_over(const struct stream *s)
{
	return s->failed_at || s->lost;
}

/* As long as posts get settled the time-out begins anew. */
static int
drain(struct stream *s)
{
	uint64_t before;
	int r;

	do {
		before = evd_posts_pending(s->ctl->evd);
		r = evd_drain(s->ctl->evd, s->ctl->timeout_ms);
		take_events(s);
	} while (r == -ETIMEDOUT && evd_posts_pending(s->ctl->evd) < before);
	return r;
}

/* ---- telling it ---- */

static uint64_t
n_accepted(const struct stream *s)
{
	uint64_t lost = s->failed + evd_posts_pending(s->ctl->evd);

	return s->sent > lost ? s->sent - lost : 0;
}

static void
print_summary(const struct stream *s)
{
	struct json *j = &s->ctl->json;

	if (!s->ctl->as_json) {
		ctl_detail(s->ctl, "%" PRIu64 " of %" PRIu64 " events %s",
			n_accepted(s), s->sent, s->post->level);
		return;
	}
	json_object(j, NULL);
	json_string(j, "alias", s->post->alias);
	json_string(j, "event", s->post->event);
	json_string(j, "level", s->post->level);
	json_uint(j, "sent", s->sent);
	json_uint(j, "accepted", n_accepted(s));
	json_object_end(j);
	json_line_end(j);
}

static int
fail_events(struct stream *s)
{
	char text[768], hint[HINT_SIZE];
	const char *why = s->failed_text;

	if (!*why)
		why = evd_status_text(s->failed_status);
	snprintf(text, sizeof(text),
		"event %" PRIu64 ": %s; %" PRIu64 " of %" PRIu64
		" events %s %s",
		s->failed_at, why, n_accepted(s), s->sent,
		n_accepted(s) == 1 ? "is" : "are", s->post->level);
	hint_for_status(s->failed_status, s->post->alias, hint);
	return ctl_fail_text(s->ctl, s->failed_status, text, hint);
}

/* @code: of an error that has been told, or 0. */
static int
finish(struct stream *s, int code)
{
	int r = drain(s);

	print_summary(s);
	if (code)
		return code;
	if (s->failed_at)
		return fail_events(s);
	if (s->lost)
		return ctl_fail(s->ctl, EVD_STATUS_LOST,
			"the connection was lost; %" PRIu64 " of %" PRIu64
			" events are %s",
			n_accepted(s), s->sent, s->post->level);
	return r < 0 ? ctl_fail_evd(s->ctl) : 0;
}

/* ---- sending ---- */

/* Nothing to read yet: what is gathered goes out, and until input comes
 * answers are taken. 0, or an exit code. */
static int
wait_for_input(struct stream *s)
{
	struct evd *evd = s->ctl->evd;
	struct pollfd fds[2] = {{.fd = s->post->payload.fd, .events = POLLIN}};

	if (poll(fds, 1, 0) != 0)
		return 0;
	if (evd_flush(evd) < 0)
		return ctl_fail_evd(s->ctl);
	while (!is_over(s) && !fds[0].revents) {
		fds[1].fd = evd_fd(evd);
		fds[1].events = (short)evd_events(evd);
		if (poll(fds, 2, evd_timeout_ms(evd)) < 0 && errno != EINTR)
			return ctl_fail(s->ctl, EVD_STATUS_INTERNAL, "poll: %s",
				strerror(errno));
		if (evd_process(evd) < 0)
			return ctl_fail_evd(s->ctl);
		take_events(s);
	}
	return 0;
}

static int
post_record(struct stream *s, const char *data, size_t size)
{
	struct post *post = s->post;
	int64_t n = evd_post_opt(
		s->ctl->evd, post->alias, post->event, data, size, &post->opt);

	take_events(s);
	if (n < 0)
		return is_over(s) ? 0 : ctl_fail_evd(s->ctl);
	if (s->sent++ == 0)
		s->first = n;
	return 0;
}

static int
send_all(struct stream *s)
{
	struct payload *p = &s->post->payload;
	uint64_t max = evd_max_payload(s->ctl->evd);
	size_t size;
	char *data;
	int r = 0, taken;

	while (r == 0 && !is_over(s)) {
		taken = payload_take(p, s->ctl, max, &data, &size, &r);
		if (taken > 0)
			r = post_record(s, data, size);
		else if (taken == 0 && p->ended)
			break;
		else if (taken == 0)
			r = wait_for_input(s);
		if (taken == 0 && r == 0 && !is_over(s))
			r = payload_fill(p, s->ctl);
	}
	return r;
}

int
post_stream(struct post *post, struct ctl *ctl)
{
	struct stream s = {.post = post, .ctl = ctl};

	return finish(&s, send_all(&s));
}
