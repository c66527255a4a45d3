"""The flights of the demo: as many as there are, each once, and as JSON."""

import json

import pytest

from demo.flights import KEY, NO_PLANE, count_by_carrier, read_flights, to_record


@pytest.mark.slow
def test_every_flight_is_read_and_known_by_its_key() -> None:
    flights = list(read_flights())

    assert len(flights) == 336_776
    assert len({tuple(flight[column] for column in KEY) for flight in flights}) == 336_776


def test_carriers_are_counted_from_the_csv() -> None:
    carriers = count_by_carrier()

    assert carriers.total() == 336_776
    assert carriers.most_common(2) == [("UA", 58_665), ("B6", 54_635)]
    assert carriers["OO"] == 32


def test_a_record_is_json_with_the_plane_as_its_partition_key() -> None:
    key, data = to_record(next(read_flights()))

    assert key == "N14228"
    assert json.loads(data) == {
        "year": 2013,
        "month": 1,
        "day": 1,
        "dep_time": 517,
        "sched_dep_time": 515,
        "dep_delay": 2,
        "arr_time": 830,
        "sched_arr_time": 819,
        "arr_delay": 11,
        "carrier": "UA",
        "flight": 1545,
        "tailnum": "N14228",
        "origin": "EWR",
        "dest": "IAH",
        "air_time": 227,
        "distance": 1400,
        "hour": 5,
        "minute": 15,
        "time_hour": "2013-01-01T10:00:00Z",
    }


def test_a_flight_without_a_plane_has_a_stand_in_key_and_nulls() -> None:
    flight = next(flight for flight in read_flights() if flight["tailnum"] == "NA")

    key, data = to_record(flight)

    assert key == NO_PLANE
    assert json.loads(data)["tailnum"] is None
    assert json.loads(data)["dep_time"] is None
