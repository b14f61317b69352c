/* report_html.c - puts the report's JSON, cut to a bounded size, and what is drawn beside it into
 * the page. What each block of data is: web/src/data.ts. */
#include "report/report_html.h"

#include <errno.h>
#include <string.h>

#include "base/buffer.h"
#include "report/report_account.h"
#include "report/report_json.h"
#include "web/web_page.h"

#define REPORT_BYTES ((size_t)2 << 20) /* of the report's JSON */
#define LIST_MOST    4096	       /* elements of a list at first, */
#define LIST_LEAST   8		       /* and when nothing else helps */
#define TEXT_MOST    1024	       /* bytes of a string */
#define PATH_BYTES   256

void report_html_left_out(json_t *list, const char *what, uint64_t shown, uint64_t of)
{
	if (shown < of)
		json_array_append_new(
			list, json_pack("{s:o, s:o, s:o}", "what", report_text_json(what), "shown",
					report_number_json(shown), "of", report_number_json(of)));
}

/* ---- the report, cut ---- */

/* The same as `report --json` prints; NULL where there is no memory for it. */
static json_t *report_whole(const struct report *r)
{
	char *text = NULL;
	size_t len = 0;
	FILE *to = open_memstream(&text, &len);
	if (!to)
		return NULL;
	int rc = report_json(to, r);
	fclose(to);
	json_t *ret = rc ? NULL : json_loadb(text, len, JSON_ALLOW_NUL, NULL);
	free(text);
	return ret;
}

struct cutter {
	size_t most;
	json_t *left_out;
};

static void cut(json_t *of, const char *path, const struct cutter *c);

static void cut_list(json_t *list, const char *path, const struct cutter *c)
{
	size_t n = json_array_size(list);
	report_html_left_out(c->left_out, path, n < c->most ? n : c->most, n);
	while (n > c->most)
		json_array_remove(list, --n);
	for (size_t i = 0; i < n; i++)
		cut(json_array_get(list, i), path, c);
}

static void cut_object(json_t *object, const char *path, const struct cutter *c)
{
	const char *key;
	json_t *value;
	json_object_foreach (object, key, value) {
		char under[PATH_BYTES];
		if (json_is_array(value) || json_is_object(value)) {
			snprintf(under, sizeof(under), "%s%s%s", path, *path ? "." : "", key);
			cut(value, under, c);
		} else if (json_string_length(value) > TEXT_MOST) {
			struct buf clean = {0};
			size_t len = TEXT_MOST; /* not within a character */
			while (len && ((uint8_t)json_string_value(value)[len] & 0xc0) == 0x80)
				len--;
			buf_add(&clean, json_string_value(value), len);
			buf_printf(&clean, "...");
			json_string_setn(value, (const char *)clean.data, clean.len);
			buf_free(&clean);
		}
	}
}

static void cut(json_t *of, const char *path, const struct cutter *c)
{
	if (json_is_array(of))
		cut_list(of, path, c);
	else if (json_is_object(of))
		cut_object(of, path, c);
}

static json_int_t shown_of(const json_t *row)
{
	return json_integer_value(json_object_get(row, "shown"));
}

/* Lists within lists say it many times, and a list that was cut twice its second length: of each
 * path the first row stays, with the least that is shown. */
static json_t *said_once(const json_t *rows)
{
	json_t *ret = json_array(), *place = json_object();
	size_t i;
	json_t *row;
	json_array_foreach ((json_t *)rows, i, row) {
		const char *what = json_string_value(json_object_get(row, "what"));
		json_t *before = json_object_get(place, what);
		if (!before) {
			json_object_set(place, what, row);
			json_array_append(ret, row);
		} else if (shown_of(row) < shown_of(before)) {
			json_object_set(before, "shown", json_object_get(row, "shown"));
		}
	}
	json_decref(place);
	return ret;
}

/* Halves the longest list that is allowed until all fits. */
static json_t *report_cut(const struct report *r, json_t *left_out)
{
	json_t *ret = report_whole(r), *all = json_array();
	for (size_t most = LIST_MOST; ret && most >= LIST_LEAST; most /= 2) {
		cut(ret, "", &(struct cutter){most, all});
		if (json_dumpb(ret, NULL, 0, JSON_COMPACT | JSON_REAL_PRECISION(9)) <= REPORT_BYTES)
			break;
	}
	json_t *once = said_once(all);
	json_array_extend(left_out, once);
	json_decref(once);
	json_decref(all);
	return ret;
}

/* ---- the page ---- */

static json_t *about_json(json_t *left_out)
{
	json_t *owners = json_object();
	for (int i = 0; i < ACCOUNT_OWNERS; i++)
		json_object_set_new(owners, account_owner_id((enum account_owner)i),
				    json_string(account_owner_words((enum account_owner)i)));
	return json_pack("{s:s, s:O, s:o}", "version", EACGM_VERSION, "left_out", left_out,
			 "owners", owners);
}

static void put(struct buf *to, const char *id, json_t *data)
{
	web_page_data(to, id, data);
	json_decref(data);
}

static void put_all(struct buf *page, const struct report *r, const json_t *report,
		    json_t *left_out)
{
	web_page_begin(page, "'none'");
	web_page_data(page, "eacgm-report", report);
	put(page, "eacgm-steps", report_html_steps(r, left_out));
	put(page, "eacgm-counters", report_html_counters(r, left_out));
	put(page, "eacgm-flames", report_html_flames(r, left_out));
	put(page, "eacgm-about", about_json(left_out));
	web_page_end(page);
}

int report_html(FILE *to, const struct report *r, struct err *e)
{
	if (!web_page_is_there())
		return err_set(e, ENOTSUP, WEB_PAGE_MISSING);
	struct buf page = {0};
	json_t *left_out = json_array(), *report = report_cut(r, left_out);
	int rc = report ? 0 : err_set(e, ENOMEM, "no memory for the report");
	if (!rc)
		put_all(&page, r, report, left_out);
	errno = 0;
	if (!rc && fwrite(page.data, 1, page.len, to) != page.len)
		rc = err_set(e, errno ? errno : EIO, "cannot write the page: %s",
			     strerror(errno ? errno : EIO));
	json_decref(left_out);
	json_decref(report);
	buf_free(&page);
	return rc;
}
