#pragma once
/* Credentials: who is at the other end of a Unix socket, as the kernel noted
 * it when the peer connected. Numbers alone: a name may change its meaning.
 * Rights are decided by uid, groups and unit; the pid is for display, for it
 * may be used again. Any thread, one value by one thread at a time. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	CREDS_GROUPS_MAX = 65536, /* as the kernel has it */
	CREDS_UNIT_MAX = 255,     /* bytes */
	/* What is read only if somebody asks for it. */
	CREDS_GROUPS = 1,
	CREDS_UNIT = 2,
};

struct creds {
	uid_t uid; /* (uid_t)-1: not known, matches nobody */
	gid_t gid;
	gid_t *groups; /* n_groups, in order; none unless looked for */
	uint32_t n_groups;
	char *unit; /* "cron.service"; NULL: not known, or not looked for */
};

/* Read @creds and *@pid of the peer of @fd, with its groups and unit if @asks
 * (CREDS_*) for them. The groups are those it had when it connected, whenever
 * they are read; the unit takes a look at its cgroup. 0 or -ENOMEM; what cannot
 * be read is not known. */
int creds_read(struct creds *creds, int fd, unsigned asks, pid_t *pid);
void creds_deinit(struct creds *creds);
int creds_copy(struct creds *to, const struct creds *from); /* 0 or -ENOMEM */
bool creds_equal(const struct creds *a, const struct creds *b);
bool creds_in_group(const struct creds *creds, gid_t gid);
/* Put the groups in order, as creds_in_group() wants them. */
void creds_sort(struct creds *creds);
/* The unit that /proc/PID/cgroup names: the first part of the path that ends as
 * one, but below user@OWN.service the next, into @out; "" if there is none.
 * Pure, for hostile bytes. */
void creds_unit_of(const char *text, uid_t own, char *out, size_t size);
