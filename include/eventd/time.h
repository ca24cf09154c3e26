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
