#pragma once
/* For the tests of net/: a kernel with one or more loops that are turned by
 * hand in the test's own thread, and clients that speak the raw protocol on
 * the other end of a socketpair. One thread, the system's clock; what waits
 * for something has a deadline. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "eventd.pb-c.h"
#include "eventd/status.h"
#include "exec/loop.h"
#include "frame.h"
#include "net/binding.h"
#include "net/conn.h"

enum { RIG_LOOPS = 4, RIG_FAKES = 16, RIG_SECONDS = 20 };

/* A session without a spec. What it does is named by the event: `echo`
 * answers with its payload, `defer` keeps the call in `call`, `wait` keeps the
 * event in `held` until rig_finish(), `crash` fails; all else is handled. */
struct fake {
	struct session *session;
	struct msg *held;
	uint64_t call;       /* the last deferred */
	uint64_t calls[128]; /* all of them */
	unsigned n_calls;
	unsigned n_run;
	char last[128]; /* event */
};

struct rig {
	struct kernel kernel;
	struct server server;
	struct loop loops[RIG_LOOPS];
	struct net nets[RIG_LOOPS];
	struct fake fakes[RIG_FAKES];
	unsigned n_loops, n_fakes;
};

struct client {
	struct rig *rig;
	int fd;
	bool ended; /* the daemon has closed it */
	uint8_t *in;
	size_t in_size, in_room;
	uint64_t seq, request;
	Eventd__V1__Frame *frame; /* the last taken */
};

struct rig *rig_new(unsigned n_loops);
/* Checks the accounts, closes all and frees. */
void rig_free(struct rig *rig);
/* cmocka's: one loop, two loops; and the end of them. */
int rig_setup(void **state);
int rig_setup_two(void **state);
int rig_teardown(void **state);
/* One turn of each loop. */
void rig_turn(struct rig *rig);
/* Enough turns for all that can happen at once. */
void rig_run(struct rig *rig);
/* Accepted = handled + queued + leased + delayed + ... over all loops. */
void rig_check(struct rig *rig);
/* Turns until @done; fails after RIG_SECONDS. */
#define RIG_UNTIL(rig, done)                              \
	do {                                              \
		uint64_t rig_end = rig_deadline();        \
		while (!(done)) {                         \
			rig_turn(rig);                    \
			assert_true(rig_now() < rig_end); \
		}                                         \
	} while (0)
uint64_t rig_now(void);
uint64_t rig_deadline(void); /* RIG_SECONDS from now */

struct fake *fake_new(struct rig *rig, unsigned loop, const char *alias);
/* End the event that it holds. */
void fake_finish(struct fake *fake);
/* A session by a spec of its own, up. */
struct session *fake_hosted(struct rig *rig, unsigned loop, const char *alias);

/* Connected, and not accepted until client_accept(@far). */
struct client *client_new(struct rig *rig, int *far);
void client_accept(struct rig *rig, unsigned loop, int far);
/* Both; client_hello() too has greeted. */
struct client *client_open(struct rig *rig, unsigned loop);
struct client *client_hello(struct rig *rig, unsigned loop);
void client_free(struct client *c);
/* The daemon's side of the newest connection on @loop. */
struct conn *rig_conn(struct rig *rig, unsigned loop);
/* The same is of the user @uid from now on, with the rights that it has by the
 * defaults of a daemon whose user is @owner. */
void rig_become(struct rig *rig, unsigned loop, uid_t uid, uid_t owner);

/* Bytes as they are, turning the loops while they do not fit. */
void client_write(struct client *c, const void *data, size_t size);
void client_send(struct client *c, const Eventd__V1__Frame *frame);
void client_envelope(struct client *c, Eventd__V1__Envelope *e);
/* The next seq; returns it. */
uint64_t client_post(struct client *c, const char *alias, const char *event);
uint64_t client_post_level(
	struct client *c, const char *alias, const char *event, int level);
uint64_t client_post_size(
	struct client *c, const char *alias, const char *event, size_t size);
void client_call(struct client *c, const char *alias, const char *event,
	uint64_t call, const char *payload);
void client_reply(
	struct client *c, uint64_t re, uint32_t status, const char *payload);
void client_settle(struct client *c, uint64_t binding, uint64_t upto);
/* Send @r with the next id without waiting. */
uint64_t client_ask(struct client *c, Eventd__V1__Request *r);

/* The next frame, or NULL once the daemon has closed; good until the next. */
Eventd__V1__Frame *client_next(struct client *c);
/* A frame that has come already, or NULL. */
Eventd__V1__Frame *client_poll(struct client *c);
/* Fails unless the daemon says nothing more for now. */
void client_expect_silence(struct client *c);
void client_expect_ack(struct client *c, uint64_t upto);
void client_expect_failure(struct client *c, uint64_t seq, int status);
/* An error frame, then the end. */
void client_expect_error(struct client *c, int status);
void client_expect_end(struct client *c);
void client_expect_reply(
	struct client *c, uint64_t re, int status, const char *payload);
Eventd__V1__Envelope *client_expect_delivery(
	struct client *c, uint64_t binding, const char *event);
/* The answer to request @id, which comes next. */
Eventd__V1__Response *client_expect_response(
	struct client *c, uint64_t id, int status);
/* Ask and take the answer, which comes next. */
Eventd__V1__Response *client_request(
	struct client *c, Eventd__V1__Request *r, int status);
void client_bind(
	struct client *c, const char *alias, uint64_t binding, uint32_t window);
uint64_t client_resolve(struct client *c, const char *alias);
/* It still gets answers. */
void client_expect_alive(struct client *c);
