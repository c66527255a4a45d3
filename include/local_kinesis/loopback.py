"""What counts as this machine talking to itself."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether a host name or address is on the loopback interface; no name but localhost is resolved."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
