#pragma once
/* Kernel: what all schedulers share, and nothing else: aliases, the table of
 * sessions, limits and the clock. No sockets, no libuv, no files. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/zone.h"
#include "kernel/alias.h"
#include "kernel/epoch.h"
#include "kernel/msg.h"
#include "kernel/users.h"

struct crowd_ops;
struct executor;
struct sched;
struct session;
struct store;

enum {
	KERNEL_LOOPS_MAX = 64,
	KERNEL_EXECUTORS_MAX = 256, /* that are, and were */
	SESSION_SLOT_BITS = 24,     /* 16 million sessions at once */
};

/* Sessions by id. An id is a slot and, above it, how often that slot has been
 * used: looked up with one load, never used again. The table has room for all
 * that there may be from the start: the system gives it memory as slots come
 * into use. */
struct sessions {
	struct session *all; /* n_max + 1; slot 0 is nobody's */
	uint32_t n_max;
	pthread_mutex_t lock; /* of what follows */
	struct session *free;
	_Atomic uint32_t n_slots;
	_Atomic uint32_t n; /* sessions that exist */
};

/* From eventd.conf; see eventd.conf(5). Fixed while the daemon runs. */
struct kernel_limits {
	uint32_t max_sessions;
	uint32_t max_timers;  /* a scheduler's delays */
	uint32_t max_calls;   /* a session's outstanding calls */
	uint32_t max_watches; /* a session's watches and links */
	uint32_t budget;      /* events a session handles in one go */
	uint32_t turn_budget; /* events a scheduler handles in one turn */
	uint32_t call_timeout_ms;
	uint32_t max_payload;  /* bytes */
	uint32_t dedup_ms;     /* how long keys are known; 0: they are not */
	uint32_t max_keys;     /* known to a session at most */
	uint32_t dead_letters; /* that a scheduler keeps */
	uint64_t dead_bytes;
	uint64_t history; /* bytes of history.h that it keeps; 0: none */
	uint32_t profile; /* 1: of every session from the start */
};
extern const struct kernel_limits kernel_limits_default;

struct kernel {
	struct epoch epoch;
	struct aliases aliases;
	struct sessions sessions;
	struct users users;
	struct depot depot;
	struct kernel_limits limits;
	const struct clock_source *clock;
	uint64_t profile_ticks, profile_ns; /* at the same time */
	struct zones zones;                 /* of calendars */
	_Atomic(struct store *) store;      /* durable things; or NULL */
	const struct crowd_ops *crowds;     /* see crowd.h; or NULL */
	bool without_store; /* what is durable is not, for this run */
	/* Mailboxes of which not all that a start needs has been read. */
	_Atomic uint32_t n_unready;
	struct sched *scheds[KERNEL_LOOPS_MAX];
	unsigned n_scheds;
	/* See away.h. They come, and stay: one that is gone is marked. */
	_Atomic(struct executor *) executors[KERNEL_EXECUTORS_MAX];
	_Atomic uint32_t n_executors;
	_Atomic uint64_t late_replies;
	_Atomic bool stopping; /* no new events from outside */
};

/* 0 or -ENOMEM. Schedulers are added by sched_init(), before any runs. */
int kernel_init(struct kernel *k, const struct kernel_limits *limits,
	const struct clock_source *clock);
void kernel_deinit(struct kernel *k); /* after all schedulers */
/* NULL: none is called so. */
struct executor *kernel_executor(const struct kernel *k, const char *name);
/* The @i-th that is not gone, or NULL: there are no more. */
struct executor *kernel_executor_at(const struct kernel *k, uint32_t i);
/* One more, which stays for as long as the kernel does; one thread at a time.
 * -ENOSPC. */
int kernel_executor_add(struct kernel *k, struct executor *x);
