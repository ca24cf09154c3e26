#pragma once
/* How far a post has come: what clients and plugins can be told of it. */

#ifdef __cplusplus
extern "C" {
#endif

/* What the daemon's acknowledgement of a post stands for. */
enum evd_level {
	EVD_ACCEPTED = 0,  /* it is in the mailbox */
	EVD_DURABLE = 1,   /* it is on disk and synced */
	EVD_DELIVERED = 2, /* its handler or consumer has been given it */
	EVD_HANDLED = 3,   /* its handler is done with it */
};

#ifdef __cplusplus
}
#endif
