/* eventctl version: of this program, its library and the daemon. One
 * thread. */
#include "ctl.h"

static void
print_json(struct ctl *ctl, bool connected)
{
	struct json *j = &ctl->json;

	json_object(j, NULL);
	json_string(j, "eventctl", EVD_VERSION);
	json_string(j, "libevd", evd_version());
	if (connected) {
		json_string(j, "server", evd_server(ctl->evd));
		json_string(j, "socket", evd_socket(ctl->evd));
	}
	json_object_end(j);
	json_line_end(j);
}

/* Our own version is told also when the daemon is not there. */
int
verb_version(struct ctl *ctl)
{
	int r;

	if (!ctl->as_json)
		fprintf(ctl->out, "eventctl %s\nlibevd %s\n", EVD_VERSION,
			evd_version());
	fflush(ctl->out);
	r = ctl_connect(ctl);
	if (ctl->as_json)
		print_json(ctl, r == 0);
	else if (r == 0)
		fprintf(ctl->out, "%s at %s\n", evd_server(ctl->evd),
			evd_socket(ctl->evd));
	return r;
}
