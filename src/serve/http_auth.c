/* http_auth.c - what is compared are SHA-256 sums, which are of one length. */
#include "serve/http_auth.h"

#include <ctype.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buffer.h"

static bool is_token(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr("-._~+/=", text[i]))
			return false;
	return n >= HTTP_TOKEN_LEAST && n <= HTTP_TOKEN_MOST;
}

int http_token_read(char **ret, const char *path, struct err *e)
{
	char text[HTTP_TOKEN_MOST + 3] = "";
	*ret = NULL;
	FILE *f = fopen(path, "re");
	if (!f)
		return err_set(e, errno, "%s: %s", path, strerror(errno));
	size_t n = fread(text, 1, sizeof(text) - 1, f);
	bool failed = ferror(f);
	fclose(f);
	if (failed)
		return err_set(e, EIO, "%s: cannot be read", path);
	if (n && text[n - 1] == '\n')
		n--;
	if (!memchr(text, 0, n) && is_token(text, n)) {
		text[n] = 0;
		*ret = xstrdup(text);
	}
	OPENSSL_cleanse(text, sizeof(text));
	return *ret ? 0
		    : err_set(e, EINVAL,
			      "%s: is no token, one line of %d to %d letters, digits and -._~+/=",
			      path, HTTP_TOKEN_LEAST, HTTP_TOKEN_MOST);
}

static bool sum_of(unsigned char ret[SHA256_DIGEST_LENGTH], const char *text)
{
	return EVP_Digest(text, strlen(text), ret, NULL, EVP_sha256(), NULL) == 1;
}

bool http_token_fits(const char *token, const char *authorization)
{
	static const char scheme[] = "Bearer ";
	unsigned char ours[SHA256_DIGEST_LENGTH], theirs[SHA256_DIGEST_LENGTH];
	size_t n = sizeof(scheme) - 1;
	if (!authorization || strncasecmp(authorization, scheme, n) != 0)
		return false;
	return sum_of(ours, token) && sum_of(theirs, authorization + n) &&
	       !CRYPTO_memcmp(ours, theirs, sizeof(ours));
}
