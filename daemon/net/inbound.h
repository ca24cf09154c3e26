#pragma once
/* Inbound: the calls that were delivered to a client and that it may answer, by
 * a handle that it knows. The thread of the connection's loop. */
#include <stdint.h>

struct conn;

/* A handle for @call, which comes as the given delivery of the binding; 0: out
 * of memory. */
uint64_t inbound_add(
	struct conn *c, uint64_t call, uint64_t binding, uint64_t delivery);
/* The call that the client knows as @handle, once; 0: none. */
uint64_t inbound_take(struct conn *c, uint64_t handle);
/* What the binding was delivered beyond @settled goes to another consumer:
 * their callers are told. */
void inbound_abandon(struct conn *c, uint64_t binding, uint64_t settled);
/* The connection ends: all callers are told. */
void inbound_drop(struct conn *c);
