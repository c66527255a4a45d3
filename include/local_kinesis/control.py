"""``POST /_local/control``: a JSON object of orders to the server, all checked before the first is carried out.

==========================================================  =========================================================
``{"deny": ["GetRecords"]}``                                these operations answer AccessDeniedException; ``[]`` ends
                                                            it
``{"trim": {"stream": S, "shard": ID, "before": NUMBER}}``  the shard's records before this sequence number are gone
``{"trim": {"stream": S, "shard": ID, "all": true}}``       all are gone; a closed shard leaves the listing
``{"advance_clock_s": X}``                                  arrival, Date, retention and expiry move with the clock
``{"page_limit": N}``                                       at most N records a page; ``null`` ends it
``{"empty_pages": K}``                                      each chain's next K replies are empty while data is ahead
``{"fail_put_records": N}``                                 N records of PutRecords are refused, every other of a call
``{"retention_behaviour": "resume"}``                       or ``"empty-pages"``: what a trimmed position gets
``{"limits": [{"stream": S, "read_calls_per_s": 2}]}``      the service's limits per shard, other values where given
                                                            (see ``limits``); without ``stream`` for all others; ``[]``
                                                            ends them
``{"faults": [{"kind": "reset", "nth": 3}]}``               a plan of faults (see ``fault_plan``); ``[]`` ends it
``{"reset_stats": true}``                                   ``GET /_local/stats`` counts from zero
==========================================================  =========================================================

A trim's ``region`` may be added where two regions have a stream of the name.
"""

import json
from collections.abc import Callable
from typing import Any

from local_kinesis.account import Account
from local_kinesis.behaviour import EMPTY_PAGES, RESUME, Behaviour
from local_kinesis.errors import InvalidArgumentException, SerializationException
from local_kinesis.fault_plan import parsed_rules
from local_kinesis.faults import Faults
from local_kinesis.limits import Limits, parsed_rates
from local_kinesis.stats import Stats

_Order = Callable[[], None]


class Control:
    """Carries out orders on the server's parts."""

    def __init__(
        self,
        account: Account,
        behaviour: Behaviour,
        stats: Stats,
        limits: Limits,
        faults: Faults,
        operations: frozenset[str],
    ) -> None:
        self._account = account
        self._behaviour = behaviour
        self._stats = stats
        self._limits = limits
        self._faults = faults
        self._operations = operations

    def apply(self, body: bytes) -> None:
        """Carries out a request's orders.

        Raises:
            SerializationException: the body is not a JSON object.
            InvalidArgumentException: an order is not one of those above; none has been carried out then.
            ResourceNotFoundException: a trim names no stream or shard; none has been carried out then.
        """
        try:
            settings = json.loads(body)
        except ValueError as exc:
            raise SerializationException(f"the body is not JSON: {exc}") from exc
        if not isinstance(settings, dict):
            raise SerializationException("the body must be a JSON object")
        orders = [self._order(name, value) for name, value in settings.items()]
        for order in orders:
            order()

    def _order(self, name: str, value: Any) -> _Order:
        behaviour = self._behaviour
        match name, value:
            case "deny", [*names] if all(isinstance(each, str) and each in self._operations for each in names):
                return lambda: setattr(behaviour, "denied", frozenset(names))
            case "advance_clock_s", int() | float() if value >= 0:
                return lambda: self._account.clock.advance(value)
            case "page_limit", None | int() if value is None or value > 0:
                return lambda: setattr(behaviour, "page_limit", value)
            case "empty_pages", int() if value >= 0:
                return lambda: behaviour.order_empty_pages(value)
            case "fail_put_records", int() if value >= 0:
                return lambda: setattr(behaviour, "failing_puts", value)
            case "retention_behaviour", str() if value in (RESUME, EMPTY_PAGES):
                return lambda: setattr(behaviour, "retention_behaviour", value)
            case "limits", entries:
                rates = parsed_rates(entries)
                return lambda: self._limits.set(rates)
            case "faults", plan:
                rules = parsed_rules(plan, self._operations)
                return lambda: setattr(self._faults, "rules", rules)
            case "reset_stats", True:
                return self._stats.reset
            case "trim", {"stream": str(), "shard": str(), **how}:
                return self._trim(value["stream"], value["shard"], how)
        raise InvalidArgumentException(f"no such order: {json.dumps({name: value})}")

    def _trim(self, name: str, shard_id: str, how: dict[Any, Any]) -> _Order:
        region = how.pop("region", None)
        shard = self._account.find(name, region).shard(shard_id, self._account.clock.now_ms())
        match how:
            case {"all": True, **rest} if not rest:
                return shard.trim_all
            case {"before": str(number), **rest} if not rest:
                ordinal = shard.numbers.ordinal(number, shard_id)
                return lambda: shard.trim_before(ordinal)
        raise InvalidArgumentException(f"a trim is either before a sequence number or all, not {json.dumps(how)}")
