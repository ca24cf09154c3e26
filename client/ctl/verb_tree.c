/* eventctl tree: sessions below those that made them, and below their groups.
 * One thread. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "pages.h"
#include "session.h"
#include "table.h"
#include "text.h"

enum { DEPTH_MAX = 64 };

struct node {
	const struct evd_session *session;
	size_t first, next; /* child, sibling: place + 1; 0: none */
	bool below;         /* its parent is listed */
};

struct tree {
	struct node *nodes; /* in the order of ids */
	size_t n;
	char margin[DEPTH_MAX * 3 + 1];
};

static int
node_compare(const void *a, const void *b)
{
	const struct node *x = a, *y = b;
	uint64_t i = evd_session_id(x->session), j = evd_session_id(y->session);

	return (i > j) - (i < j);
}

static struct node *
node_find(struct tree *t, uint64_t id)
{
	size_t low = 0, high = t->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		uint64_t at = evd_session_id(t->nodes[middle].session);

		if (at == id)
			return &t->nodes[middle];
		if (at < id)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

/* The last comes first in a list, so go from the end. */
static void
tree_link(struct tree *t)
{
	for (size_t i = t->n; i-- > 0;) {
		struct node *node = &t->nodes[i];
		struct node *parent =
			node_find(t, evd_session_parent(node->session));

		if (!parent || parent == node)
			continue;
		node->below = true;
		node->next = parent->first;
		parent->first = i + 1;
	}
}

/* Clients' connections have no name and are of no interest here. */
static bool
is_listed(struct ctl *ctl, const struct evd_session *s)
{
	return ctl_has(ctl, OPT_ALL) || evd_session_n_aliases(s) > 0 ||
	       evd_session_parent(s) || *evd_session_name(s);
}

static int
tree_init(struct tree *t, struct ctl *ctl, const struct pages *all)
{
	memset(t, 0, sizeof(*t));
	t->nodes = calloc(all->n + 1, sizeof(*t->nodes));
	if (!t->nodes)
		return ctl_fail(ctl, EVD_STATUS_NO_MEMORY, "out of memory");
	for (size_t i = 0; i < all->n; i++)
		if (is_listed(ctl, pages_session(all, i)))
			t->nodes[t->n++].session = pages_session(all, i);
	qsort(t->nodes, t->n, sizeof(*t->nodes), node_compare);
	tree_link(t);
	return 0;
}

/* ---- for people ---------------------------------------------------------- */

static void
print_session(struct ctl *ctl, const struct evd_session *s)
{
	enum table_style style = session_style(s);
	const char *alias = evd_session_alias(s, 0);

	escape_text(ctl->out, alias ? alias : evd_session_name(s));
	if (!alias)
		fprintf(ctl->out, " (%" PRIu64 ")", evd_session_id(s));
	fprintf(ctl->out, "  %s  %s", evd_session_kind(s),
		style_begin(style, ctl->color));
	escape_text(ctl->out, evd_session_state(s));
	fputs(style_end(style, ctl->color), ctl->out);
	if (evd_session_restarts(s))
		fprintf(ctl->out, ", restarts %" PRIu32,
			evd_session_restarts(s));
	fputc('\n', ctl->out);
}

static void
print_below(struct ctl *ctl, struct tree *t, const struct node *node,
	unsigned depth)
{
	size_t used = strlen(t->margin);

	for (size_t i = node->first; i && depth < DEPTH_MAX;) {
		const struct node *child = &t->nodes[i - 1];

		i = child->next;
		fprintf(ctl->out, "%s%s ", t->margin, i ? "|-" : "`-");
		print_session(ctl, child->session);
		strcpy(t->margin + used, i ? "|  " : "   ");
		print_below(ctl, t, child, depth + 1);
		t->margin[used] = '\0';
	}
}

static void
print_tree(struct ctl *ctl, struct tree *t)
{
	for (size_t i = 0; i < t->n; i++) {
		if (t->nodes[i].below)
			continue;
		print_session(ctl, t->nodes[i].session);
		print_below(ctl, t, &t->nodes[i], 1);
	}
}

/* ---- for programs -------------------------------------------------------- */

/* Parents before their children, each a line. */
static void
json_below(struct ctl *ctl, struct tree *t, const struct node *node,
	unsigned depth)
{
	session_write_json(&ctl->json, node->session);
	if (depth == DEPTH_MAX)
		return;
	for (size_t i = node->first; i; i = t->nodes[i - 1].next)
		json_below(ctl, t, &t->nodes[i - 1], depth + 1);
}

static void
json_tree(struct ctl *ctl, struct tree *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (!t->nodes[i].below)
			json_below(ctl, t, &t->nodes[i], 1);
}

int
verb_tree(struct ctl *ctl)
{
	struct pages all;
	struct tree tree = {0};
	int r = ctl_connect(ctl);

	if (r)
		return r;
	r = pages_load_sessions(&all, ctl, NULL);
	if (r == 0)
		r = tree_init(&tree, ctl, &all);
	if (r == 0 && ctl->as_json)
		json_tree(ctl, &tree);
	else if (r == 0)
		print_tree(ctl, &tree);
	free(tree.nodes);
	pages_free_sessions(&all);
	return r;
}
