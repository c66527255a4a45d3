"""The matrix on a real Airflow with a real Spark: gone on with as Airflow or a person would."""
