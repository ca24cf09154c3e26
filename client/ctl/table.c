/* Tables: see table.h. One thread. */
#include "table.h"

#include <stdlib.h>
#include <string.h>

#include "text.h"

void
table_init(struct table *t, const char *const *titles, size_t n_columns)
{
	memset(t, 0, sizeof(*t));
	t->titles = titles;
	t->n_columns = n_columns;
}

void
table_deinit(struct table *t)
{
	for (size_t i = 0; i < t->n_cells; i++)
		free(t->cells[i].text);
	free(t->cells);
	memset(t, 0, sizeof(*t));
}

static struct table_cell *
next_cell(struct table *t)
{
	size_t max = t->max_cells ? t->max_cells * 2 : 64;
	struct table_cell *cells;

	if (t->n_cells == t->max_cells) {
		cells = reallocarray(t->cells, max, sizeof(*cells));
		if (!cells)
			return NULL;
		t->cells = cells;
		t->max_cells = max;
	}
	return &t->cells[t->n_cells++];
}

static char *
escaped(const char *text)
{
	char *out = NULL;
	size_t size;
	FILE *f = open_memstream(&out, &size);

	if (!f)
		return NULL;
	escape_text(f, *text ? text : "-");
	if (fclose(f) == 0)
		return out;
	free(out);
	return NULL;
}

void
table_add_style(struct table *t, const char *text, enum table_style style)
{
	struct table_cell *cell = next_cell(t);

	if (cell) {
		cell->text = escaped(text);
		cell->style = style;
	}
	if (!cell || !cell->text)
		t->failed = true;
}

void
table_add(struct table *t, const char *text)
{
	table_add_style(t, text, TABLE_PLAIN);
}

void
table_addf(struct table *t, const char *format, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	table_add(t, text);
}

const char *
style_begin(enum table_style style, bool color)
{
	static const char *const codes[] = {
		[TABLE_PLAIN] = "",
		[TABLE_GOOD] = "\033[32m",
		[TABLE_WARN] = "\033[33m",
		[TABLE_BAD] = "\033[31m",
	};

	return color ? codes[style] : "";
}

const char *
style_end(enum table_style style, bool color)
{
	return color && style != TABLE_PLAIN ? "\033[0m" : "";
}

static void
column_widths(const struct table *t, size_t *widths)
{
	size_t width;

	for (size_t i = 0; i < t->n_columns; i++)
		widths[i] = strlen(t->titles[i] + (t->titles[i][0] == '>'));
	for (size_t i = 0; i < t->n_cells; i++) {
		width = utf8_width(t->cells[i].text);
		if (width > widths[i % t->n_columns])
			widths[i % t->n_columns] = width;
	}
}

/* Column @i of @text; nothing trails behind the last column. */
static void
write_cell(const struct table *t, FILE *f, size_t i, const char *text,
	size_t pad, const char *styles[2])
{
	bool right = t->titles[i][0] == '>', last = i + 1 == t->n_columns;

	if (right)
		fprintf(f, "%*s", (int)pad, "");
	fprintf(f, "%s%s%s", styles[0], text, styles[1]);
	if (!right && !last)
		fprintf(f, "%*s", (int)pad, "");
	fputs(last ? "\n" : "  ", f);
}

int
table_write(const struct table *t, FILE *f, bool titles, bool color)
{
	size_t widths[TABLE_MAX_COLUMNS], column;
	const char *styles[2] = {"", ""};
	const struct table_cell *cell;
	const char *title;

	if (t->failed)
		return -1;
	column_widths(t, widths);
	for (size_t i = 0; titles && i < t->n_columns; i++) {
		title = t->titles[i] + (t->titles[i][0] == '>');
		write_cell(t, f, i, title, widths[i] - strlen(title), styles);
	}
	for (size_t i = 0; i < t->n_cells; i++) {
		cell = &t->cells[i];
		column = i % t->n_columns;
		styles[0] = style_begin(cell->style, color);
		styles[1] = style_end(cell->style, color);
		write_cell(t, f, column, cell->text,
			widths[column] - utf8_width(cell->text), styles);
	}
	return 0;
}
