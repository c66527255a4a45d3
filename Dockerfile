# Airflow with Shardlake and the Java that Spark needs. One image for every part: scheduler, workers, API server.
FROM apache/airflow:3.3.2-python3.11

USER root
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*

USER airflow
COPY --chown=airflow:root requirements.txt /opt/airflow/requirements.txt
RUN pip install --no-cache-dir -r /opt/airflow/requirements.txt

COPY --chown=airflow:root dags/ /opt/airflow/dags/
COPY --chown=airflow:root plugins/ /opt/airflow/plugins/
COPY --chown=airflow:root jobs/ /opt/airflow/jobs/
COPY --chown=airflow:root include/pipelines.yaml /opt/airflow/include/pipelines.yaml
COPY --chown=airflow:root include/shardlake/ /opt/airflow/include/shardlake/

# The package, for Airflow's processes; Spark gets it as a zip.
ENV PYTHONPATH=/opt/airflow/include
