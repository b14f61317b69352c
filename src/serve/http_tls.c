/* http_tls.c - contexts and connections of OpenSSL for libevent. */
#include "serve/http_tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/buffer.h"

struct http_tls {
	SSL_CTX *ctx;
};

/* Bundles of Debian, Fedora, openSUSE, RHEL and Alpine. */
static const char *const bundles[] = {
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/ssl/cert.pem",
};

static const char *reason(void)
{
	const char *text = ERR_reason_error_string(ERR_peek_last_error());
	return text ? text : "cannot be used";
}

static struct http_tls *make(const SSL_METHOD *method)
{
	struct http_tls *t = xcalloc(1, sizeof(*t));
	ERR_clear_error();
	t->ctx = SSL_CTX_new(method);
	if (!t->ctx || !SSL_CTX_set_min_proto_version(t->ctx, TLS1_2_VERSION)) {
		http_tls_free(t);
		return NULL;
	}
	return t;
}

static int trust(struct http_tls *t, const char *ca_file, struct err *e)
{
	for (size_t i = 0; i < sizeof(bundles) / sizeof(bundles[0]) && !ca_file; i++)
		if (!access(bundles[i], R_OK))
			ca_file = bundles[i];
	if (!ca_file)
		return err_set(e, ENOENT,
			       "no certificates of authorities are on this host "
			       "(Debian's package ca-certificates)");
	if (SSL_CTX_load_verify_locations(t->ctx, ca_file, NULL) != 1)
		return err_set(e, EINVAL, "%s: %s", ca_file, reason());
	SSL_CTX_set_verify(t->ctx, SSL_VERIFY_PEER, NULL);
	return 0;
}

int http_tls_client(struct http_tls **ret, const char *ca_file, struct err *e)
{
	struct http_tls *t = make(TLS_client_method());
	if (!t)
		return err_set(e, ENOMEM, "TLS cannot be started: %s", reason());
	int rc = trust(t, ca_file, e);
	if (rc)
		http_tls_free(t);
	else
		*ret = t;
	return rc;
}

static int show(struct http_tls *t, const char *cert_file, const char *key_file, struct err *e)
{
	if (SSL_CTX_use_certificate_chain_file(t->ctx, cert_file) != 1)
		return err_set(e, EINVAL, "%s: %s", cert_file, reason());
	if (SSL_CTX_use_PrivateKey_file(t->ctx, key_file, SSL_FILETYPE_PEM) != 1)
		return err_set(e, EINVAL, "%s: %s", key_file, reason());
	if (SSL_CTX_check_private_key(t->ctx) != 1)
		return err_set(e, EINVAL, "%s is not the key of %s", key_file, cert_file);
	return 0;
}

int http_tls_server(struct http_tls **ret, const char *cert_file, const char *key_file,
		    struct err *e)
{
	struct http_tls *t = make(TLS_server_method());
	if (!t)
		return err_set(e, ENOMEM, "TLS cannot be started: %s", reason());
	SSL_CTX_set_options(t->ctx, SSL_OP_NO_RENEGOTIATION);
	int rc = show(t, cert_file, key_file, e);
	if (rc)
		http_tls_free(t);
	else
		*ret = t;
	return rc;
}

void http_tls_free(struct http_tls *t)
{
	if (!t)
		return;
	SSL_CTX_free(t->ctx);
	free(t);
}

/* Names are asked for by SNI (RFC 6066), addresses are not. */
static bool ask_for(SSL *ssl, const char *host)
{
	struct in6_addr any;
	if (inet_pton(AF_INET, host, &any) == 1 || inet_pton(AF_INET6, host, &any) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
	return SSL_set_tlsext_host_name(ssl, host) == 1 && SSL_set1_host(ssl, host) == 1;
}

static struct bufferevent *wrap(struct event_base *base, SSL *ssl, enum bufferevent_ssl_state state)
{
	struct bufferevent *b = bufferevent_openssl_socket_new(
		base, -1, ssl, state, BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
	if (b) /* else libevent has freed it */
		bufferevent_openssl_set_allow_dirty_shutdown(b, 1);
	return b;
}

struct bufferevent *http_tls_connect(struct http_tls *t, struct event_base *base, const char *host)
{
	SSL *ssl = SSL_new(t->ctx);
	if (!ssl || !ask_for(ssl, host)) {
		SSL_free(ssl);
		return NULL;
	}
	return wrap(base, ssl, BUFFEREVENT_SSL_CONNECTING);
}

struct bufferevent *http_tls_accept(struct http_tls *t, struct event_base *base)
{
	SSL *ssl = SSL_new(t->ctx);
	return ssl ? wrap(base, ssl, BUFFEREVENT_SSL_ACCEPTING) : NULL;
}

const char *http_tls_problem(struct bufferevent *b)
{
	SSL *ssl = bufferevent_openssl_get_ssl(b);
	long verified = ssl ? SSL_get_verify_result(ssl) : X509_V_OK;
	unsigned long code = 0, next;
	if (verified != X509_V_OK)
		return X509_verify_cert_error_string(verified);
	while ((next = bufferevent_get_openssl_error(b)))
		code = next;
	return code ? ERR_reason_error_string(code) : NULL;
}
