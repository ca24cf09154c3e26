#pragma once
/* Arrival: the payload of an envelope that did not come among its bytes: it has
 * landed (landing.h), or is what a descriptor holds (memfd.h). The thread of
 * the connection's loop. */
#include "net/conn.h"

/* Of the extensions that the client knows, those that it may use. */
void arrival_features(struct conn *c, const Eventd__V1__Hello *hello);
/* An envelope has come with a memfd_size. */
void arrival_memfd(struct conn *c, struct envelope *e);
/* An envelope whose payload is that of @arrival, or has failed to be. */
void arrival_run(struct conn *c, struct envelope *e, struct arrival *arrival);
/* The message of a large payload, which is stored once, whoever gets it; NULL:
 * out of memory. */
struct msg *arrival_message(
	struct conn *c, const struct envelope *e, const struct msg_init *init);
