/*
 * Messages to the service manager, if there is one: the notify protocol of systemd, a datagram of
 * lines "NAME=value" to the socket that NOTIFY_SOCKET names. Without that variable nothing happens.
 *
 * Thread: any. A message that cannot be sent is logged, and changes nothing else.
 */
#ifndef LINNET_SERVER_CLI_NOTIFY_H
#define LINNET_SERVER_CLI_NOTIFY_H

/* `message`: "READY=1", "STOPPING=1\nSTATUS=draining". */
void lx_notify(const char *message);

#endif
