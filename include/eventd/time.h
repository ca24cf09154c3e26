#pragma once
/* Words about time that libevd and plugins share. The numbers never change. */

/* The clock that a timer counts by. */
enum evd_clock {
	EVD_CLOCK_MONOTONIC = 0, /* stands still while the machine is suspended
				  */
	EVD_CLOCK_BOOTTIME = 1,  /* does not */
	EVD_CLOCK_WALL = 2,      /* may be set; that of alarms and calendars */
};

/* What becomes of calendar times that passed unseen, for the machine was
 * suspended or its clock was set. */
enum evd_misfire {
	EVD_MISFIRE_ONCE = 0, /* one event, for the first of them */
	EVD_MISFIRE_SKIP = 1, /* nothing */
	EVD_MISFIRE_ALL = 2,  /* one event for each, at most 1000 */
};

/* Where a timer is kept. One in the store outlives the daemon, has the same id
 * and name in all runs, and fires late, as misfire says, if it came due while
 * there was none. */
enum evd_keep {
	EVD_KEEP_AS_MAILBOX = 0, /* where the mailbox is that it goes to */
	EVD_KEEP_DURABLE = 1,    /* in the store, or not at all */
	EVD_KEEP_VOLATILE = 2,   /* in memory */
};
