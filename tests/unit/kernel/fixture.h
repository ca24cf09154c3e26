#pragma once
/* For the tests of kernel/: schedulers that are stepped by hand under a fake
 * clock, and fake sessions whose handlers are functions of the test. One
 * thread.
 *
 * Each fake writes down what happens to it, one word each: "start", the names
 * of events, "reply7=ok:text" (token, status), "settled3=ok" (seq, status;
 * an error with ":text" if the test asks for texts), "stop", "crash". */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "kernel/away.h"
#include "kernel/kernel.h"
#include "kernel/sched.h"

enum {
	FIXTURE_SCHEDS = 4,
	FIXTURE_FAKES = 4096,
	FIXTURE_TRACE = 1024,
	FIXTURE_TURNS = 10000, /* enough for any test */
};

struct fixture;

struct fake {
	struct fixture *fixture;
	struct sched *sched;
	struct session *session;
	uint64_t id;
	/* NULL: SESSION_DONE, or nothing. */
	enum session_result (*on_start)(struct fake *fake);
	enum session_result (*on_run)(struct fake *fake, struct msg *m);
	void (*on_reply)(struct fake *fake, uint64_t token, struct msg *reply);
	void (*on_settled)(struct fake *fake, uint64_t seq, int status);
	void (*on_stop)(struct fake *fake);
	/* Writes "cancelled" down; NULL: it had no such call. */
	bool (*on_cancelled)(struct fake *fake, uint64_t call);
	struct fake *other;  /* for the handlers */
	struct msg *held[8]; /* likewise */
	unsigned n_held, n_started, n_run, n_replies, n_settled, n_stopped;
	uint64_t number, call;
	bool alive; /* started and not stopped since */
	bool texts; /* write down error texts of settled */
	char trace[FIXTURE_TRACE];
};

struct fixture {
	struct kernel kernel;
	struct clock_fake clock;
	struct sched scheds[FIXTURE_SCHEDS];
	unsigned n_scheds;
	_Atomic unsigned n_wakes; /* threads_test.c has some */
	struct fake *fakes[FIXTURE_FAKES];
	unsigned n_fakes;
	/* Sessions whose executor this is go away until fixture_run_away(). */
	struct executor executor;
	struct away *out[FIXTURE_FAKES]; /* n_out of them, oldest first */
	unsigned n_out;
	bool lazy; /* fixture_turn() leaves them out */
};

extern const struct session_ops fake_ops;
extern const struct session_ops fake_inline_ops; /* with answer() */

/* @limits NULL: the defaults. */
struct fixture *fixture_new(
	unsigned n_scheds, const struct kernel_limits *limits);
/* Checks the accounts, stops everything, and that every state was freed. */
void fixture_free(struct fixture *f);
/* cmocka's: one, two schedulers with default limits; and the end of them. */
int fixture_setup(void **state);
int fixture_setup_two(void **state);
int fixture_teardown(void **state);

/* A session without a spec on scheduler @i, alias @name if not NULL. */
struct fake *fake_new(struct fixture *f, unsigned i, const char *name);
struct fake *fake_new_ops(struct fixture *f, unsigned i, const char *name,
	const struct session_ops *ops);
/* A session by @spec, which is consumed, not started yet. */
struct fake *fake_hosted(
	struct fixture *f, unsigned i, struct session_spec *spec);
/* The same, as @place of @order. */
struct start_order;
struct fake *fake_gated(struct fixture *f, unsigned i,
	struct session_spec *spec, struct start_order *order, uint32_t place);
/* A spec of one alias with these policies. */
struct session_spec *fixture_spec(const char *alias, enum restart_mode restart);
bool fake_exists(const struct fake *fake);
/* The word of the status table. */
const char *fixture_word(int status);
/* What it wrote down since it was asked last. */
const char *fake_trace(struct fake *fake);

struct msg *fixture_msg(
	struct sched *s, const struct fake *to, const char *event);
/* Post @event from @from, which may be NULL (then by the receiver's
 * scheduler), plainly; must be taken. */
void fixture_post(struct fake *from, const struct fake *to, const char *event);
/* Post with MSG_ACK | @flags, to be settled at @level. */
void fixture_post_ack(struct fake *from, const struct fake *to,
	const char *event, uint64_t seq, enum msg_level level, uint8_t flags);
/* The same with an extra, for fixture_send(). */
struct msg *fixture_rich(
	struct sched *s, const struct fake *to, const char *event);
void msg_set_key(struct msg *m, const char *key);
/* Post @m from @from with MSG_ACK | @flags, to be settled at @level. */
void fixture_send(struct fake *from, struct msg *m, uint64_t seq,
	enum msg_level level, uint8_t flags);
/* Call from @from, whose reply comes under @token. */
int fixture_call(struct fake *from, const struct fake *to, const char *event,
	uint64_t token, uint32_t timeout_ms);

/* Run number @i of those that are away: one piece after the other. */
void fixture_run_away(struct fixture *f, unsigned i);
/* One turn of each scheduler: true if one has more to do. */
bool fixture_turn(struct fixture *f);
/* Turns until nobody has anything to do, then checks the accounts. */
void fixture_run(struct fixture *f);
/* Move both clocks by @ms and run. */
void fixture_advance(struct fixture *f, uint64_t ms);

/* Accepted = handled + queued + leased + delayed + expired + cancelled +
 * dropped + dead, of each session, each scheduler and in total. */
void fixture_check(struct fixture *f);
/* Handlers for many tests. */
enum session_result fake_wait(struct fake *fake, struct msg *m);
enum session_result fake_lease(struct fake *fake, struct msg *m);
enum session_result fake_hold(struct fake *fake, struct msg *m);
enum session_result fake_crash(struct fake *fake, struct msg *m);
/* End the oldest event that it holds. */
void fake_done(struct fake *fake, int status);
