#pragma once
/* A kernel with one scheduler and a clock that moves when told to, and a
 * session of the test's own that posts, calls and remembers what came. For the
 * tests of session kinds; one thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "kernel/kernel.h"
#include "kernel/sched.h"
#include "kernel/session.h"
#include "kernel/spec.h"
#include "kind/kind.h"

enum { RIG_TURNS = 200000, RIG_TEXT = 8192 };

struct rig {
	struct kernel k;
	struct sched s;
	struct clock_fake clock;
	struct session *probe; /* alias "probe" */
	char dir[64];
	/* of the probe */
	unsigned n_events, n_replies;
	char event[128], data[RIG_TEXT]; /* the last event */
	char all[RIG_TEXT];              /* all payloads, a space behind each */
	uint64_t from;
	unsigned status; /* of the last reply */
	char reply[RIG_TEXT];
	char held_text[64];
	uint64_t held; /* a call that the probe has not answered */
};

static inline struct rig *
rig_of(const struct session *s)
{
	return s->state;
}

static inline void
rig_copy(char *out, const struct msg *m)
{
	size_t size = m->size < RIG_TEXT - 1 ? m->size : RIG_TEXT - 1;

	memcpy(out, m->data, size);
	out[size] = '\0';
}

static inline enum session_result
probe_start(struct session *s)
{
	(void)s;
	return SESSION_DONE;
}

/* `hold`: answered by rig_answer(); `echo`: with its payload. */
static inline enum session_result
probe_run(struct session *s, struct msg *m)
{
	struct rig *rig = rig_of(s);
	size_t n = strlen(rig->all);

	rig->n_events++;
	rig->from = m->from;
	snprintf(rig->event, sizeof(rig->event), "%s", m->event);
	rig_copy(rig->data, m);
	snprintf(rig->all + n, sizeof(rig->all) - n, "%s ", rig->data);
	if (strcmp(m->event, "hold") == 0) {
		rig->held = msg_call(m);
		msg_uncall(m);
	} else if (strcmp(m->event, "echo") == 0) {
		sched_reply(&rig->s, msg_call(m), 0, m->data, m->size);
		m->flags |= MSG_REPLIED;
	}
	return SESSION_DONE;
}

static inline void
probe_reply(struct session *s, uint64_t token, struct msg *reply)
{
	struct rig *rig = rig_of(s);

	(void)token;
	rig->n_replies++;
	rig->status = msg_status(reply);
	rig_copy(rig->reply, reply);
}

static inline void
probe_stop(struct session *s, bool crashed)
{
	(void)s, (void)crashed;
}

static const struct session_ops rig_probe_ops = {
	.kind = "probe",
	.start = probe_start,
	.run = probe_run,
	.reply = probe_reply,
	.stop = probe_stop,
};

static inline void
rig_wake(struct sched *s)
{
	(void)s;
}

static const struct executor_ops rig_executor = {
	.name = "test", .wake = rig_wake};

static inline int
rig_setup(void **state)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	log_level_now = (enum log_level)0; /* failures are meant here */
	clock_fake_init(&rig->clock);
	assert_int_equal(kernel_init(&rig->k, &kernel_limits_default,
				 &rig->clock.source),
		0);
	assert_int_equal(
		sched_init(&rig->s, &rig->k, 0, &rig_executor, NULL), 0);
	rig->probe = session_new(&rig->s, &rig_probe_ops, NULL, rig);
	assert_non_null(rig->probe);
	assert_int_equal(session_add_alias(rig->probe, "probe", 5), 0);
	snprintf(rig->dir, sizeof(rig->dir), "/tmp/eventd-kind-XXXXXX");
	assert_non_null(mkdtemp(rig->dir));
	*state = rig;
	return 0;
}

static inline int
rig_teardown(void **state)
{
	struct rig *rig = *state;
	char command[128];

	sched_deinit(&rig->s);
	kernel_deinit(&rig->k);
	kind_thread_deinit();
	snprintf(command, sizeof(command), "rm -rf '%s'", rig->dir);
	assert_int_equal(system(command), 0);
	free(rig);
	return 0;
}

/* Until nothing is left to do now. */
static inline void
rig_turn(struct rig *rig)
{
	int n = 0;

	while (sched_turn(&rig->s))
		assert_true(n++ < RIG_TURNS);
}

static inline void
rig_advance(struct rig *rig, uint64_t ms)
{
	clock_fake_advance(&rig->clock, ms * NS_PER_MS);
	rig_turn(rig);
}

static inline char *
rig_path(struct rig *rig, const char *name)
{
	char *path = NULL;

	assert_true(asprintf(&path, "%s/%s", rig->dir, name) > 0);
	return path;
}

static inline void
rig_write(struct rig *rig, const char *name, const void *text, size_t size)
{
	char *path = rig_path(rig, name);
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
	free(path);
}

static inline struct session_spec *
rig_spec(struct rig *rig, const char *kind, const char *alias, const char *file)
{
	struct session_spec *spec = spec_new();

	assert_non_null(spec);
	spec->kind = strdup(kind);
	spec->name = strdup(alias);
	spec->path = *file == '/' ? strdup(file) : rig_path(rig, file);
	spec->restart = RESTART_NO;
	assert_int_equal(spec_add_alias(spec, alias), 0);
	return spec;
}

/* Start it; takes the reference to @spec. */
static inline struct session *
rig_start(struct rig *rig, struct session_spec *spec)
{
	struct session *s =
		session_new(&rig->s, kind_find(spec->kind), spec, NULL);

	assert_non_null(s);
	spec_unref(spec);
	rig_turn(rig);
	return s;
}

static inline struct session_spec *
rig_lua_spec(struct rig *rig, const char *alias, const char *script)
{
	char file[64];

	snprintf(file, sizeof(file), "%s.lua", alias);
	rig_write(rig, file, script, strlen(script));
	return rig_spec(rig, "lua", alias, file);
}

static inline struct session *
rig_lua(struct rig *rig, const char *alias, const char *script)
{
	return rig_start(rig, rig_lua_spec(rig, alias, script));
}

static inline struct msg *
rig_msg(struct rig *rig, const char *alias, const char *event, const void *data,
	size_t size)
{
	struct msg *m = msg_new(
		&rig->s.pool, &(struct msg_init){.event = event,
				      .event_size = (uint8_t)strlen(event),
				      .data = data,
				      .size = (uint32_t)size});

	assert_non_null(m);
	m->to = alias_holder(&rig->k.aliases, alias, strlen(alias));
	assert_true(m->to != 0);
	m->from = rig->probe->id;
	return m;
}

static inline void
rig_post(
	struct rig *rig, const char *alias, const char *event, const char *data)
{
	struct msg *m = rig_msg(rig, alias, event, data, strlen(data));

	assert_int_equal(sched_post(&rig->s, m), 0);
}

/* Call without running anything. */
static inline void
rig_call_later(
	struct rig *rig, const char *alias, const char *event, const char *data)
{
	struct msg *m = rig_msg(rig, alias, event, data, strlen(data));

	assert_int_equal(session_call(rig->probe, m, 1, 0, NULL), 0);
}

/* The reply's text; its status is rig->status. Fails if none comes at once. */
static inline const char *
rig_call(
	struct rig *rig, const char *alias, const char *event, const char *data)
{
	unsigned n = rig->n_replies;

	rig_call_later(rig, alias, event, data);
	rig_turn(rig);
	assert_int_equal(rig->n_replies, n + 1);
	return rig->reply;
}

static inline void
rig_expect(struct rig *rig, const char *alias, const char *event,
	const char *data, const char *reply)
{
	assert_string_equal(rig_call(rig, alias, event, data), reply);
	assert_int_equal(rig->status, 0);
}

/* Answer the call that the probe holds. */
static inline void
rig_answer(struct rig *rig, int status, const char *text)
{
	assert_true(rig->held != 0);
	sched_reply(&rig->s, rig->held, status, text, (uint32_t)strlen(text));
	rig->held = 0;
	rig_turn(rig);
}

static inline const char *
rig_reason(const struct session *s)
{
	return s->health && s->health->reason ? s->health->reason : "";
}

/* The session has failed, for a reason that holds @text. */
static inline void
rig_expect_failed(struct session *s, const char *text)
{
	assert_string_equal(session_state_word(s), "failed");
	if (!strstr(rig_reason(s), text))
		fail_msg("'%s' is not in: %s", text, rig_reason(s));
}
