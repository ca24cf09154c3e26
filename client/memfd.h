#pragma once
/* Memfd: see memfd.c. Belongs to the thread that uses the handle. */
#include "internal.h"
#include "passing.h"

/* Of a handle with evd_set_memfd(). */
struct memfds {
	struct passed in;
	int fd;            /* goes out with the byte behind @before; -1: none */
	size_t before;     /* bytes of output that go first */
	uint64_t max_size; /* the daemon's; 0: it takes none */
	bool replies;      /* it takes replies so, too */
};

/* For a new connection; and for good. */
void evd__memfd_reset(struct evd *c);
void evd__memfd_free(struct evd *c);
void evd__memfd_welcome(struct evd *c, const Eventd__V1__Welcome *w);
/* Is @m to travel so? */
bool evd__memfd_wants(const struct evd *c, const struct message *m);
bool evd__memfd_wants_reply(const struct evd *c, const struct message *m);
/* Make the descriptor of @m ready to be put: 0 or -errno. */
int evd__memfd_stage(struct evd *c, const struct message *m, int64_t deadline);
void evd__memfd_unstage(struct evd *c);
/* Its envelope into the output: 0 or -EAGAIN (out of memory). */
int evd__memfd_put(struct evd *c, const struct envelope *e);
/* One write of output while a descriptor is in it, as send(). */
ssize_t evd__memfd_write(struct evd *c);
/* The payload of an envelope that says memfd_size; false: the daemon lies. */
bool evd__memfd_take(struct evd *c, struct evd_event *ev);
/* evd_reply() of any message. */
int evd__reply_message(struct evd *c, uint64_t call, const struct message *m);
/* evd_post_opt() of any message. */
int64_t evd__post_message(struct evd *c, const struct message *m,
	const struct evd_post_options *opt);
