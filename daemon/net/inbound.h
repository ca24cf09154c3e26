#pragma once
/* Inbound: the calls that were delivered to a client and that it may answer, by
 * a handle that it knows. The thread of the connection's loop. */
#include <stdbool.h>
#include <stdint.h>

struct conn;
struct inbound;
struct msg;

/* A handle for the call of @m, which comes as the given delivery of the
 * binding; 0: out of memory. */
uint64_t inbound_add(struct conn *c, const struct msg *m, uint64_t binding,
	uint64_t delivery);
/* The open call that the client knows as @handle, or NULL. */
const struct inbound *inbound_find(const struct conn *c, uint64_t handle);
/* The call that the client knows as @handle, once; 0: none. */
uint64_t inbound_take(struct conn *c, uint64_t handle);
/* The caller of @call wants no answer: the client is told if it has it. */
bool inbound_cancel(struct conn *c, uint64_t call);
/* What the binding was delivered beyond @settled goes to another consumer:
 * their callers are told. */
void inbound_abandon(struct conn *c, uint64_t binding, uint64_t settled);
/* The connection ends: all callers are told. */
void inbound_drop(struct conn *c);
