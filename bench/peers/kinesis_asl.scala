/** spark-streaming-kinesis-asl: a batch of Spark Streaming every second, written by Spark's own writer of Parquet.
  *
  * One receiver with one KCL 1 worker reads all shards: 10,000 records of each a second, since the receiver leaves the
  * KCL's idle time between reads at its 1 s and has no setting for it. Its write-ahead log is off.
  */
package peer

import java.net.URI
import java.sql.Timestamp
import java.util.concurrent.atomic.AtomicLong

import com.amazonaws.Request
import com.amazonaws.handlers.RequestHandler2
import com.amazonaws.services.kinesis.metrics.interfaces.MetricsLevel
import com.amazonaws.services.kinesis.model.Record
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.functions.lit
import org.apache.spark.storage.StorageLevel
import org.apache.spark.streaming.kinesis.{KinesisInitialPositions, KinesisInputDStream}
import org.apache.spark.streaming.{Seconds, StreamingContext}

/** A record's columns, as the other peers write them. */
case class Line(
    sequence_number: String,
    partition_key: String,
    approximate_arrival_timestamp: Timestamp,
    data: Array[Byte])

/** Sends what is for DynamoDB where `AWS_ENDPOINT_URL_DYNAMODB` says. The receiver has no setting for that and SDK 1
  * does not know the variable, so this is one of the SDK's global handlers (request.handler2s).
  */
class Leases extends RequestHandler2 {
  private val endpoint = URI.create(sys.env("AWS_ENDPOINT_URL_DYNAMODB"))

  override def beforeRequest(request: Request[_]): Unit =
    if (request.getServiceName == "AmazonDynamoDBv2") request.setEndpoint(endpoint)
}

object Asl {
  private val begunNs = new AtomicLong

  private def line(record: Record): Line = {
    if (begunNs.get == 0) begunNs.compareAndSet(0, System.nanoTime)
    val data = new Array[Byte](record.getData.remaining)
    record.getData.get(data)
    val arrived = new Timestamp(record.getApproximateArrivalTimestamp.getTime)
    Line(record.getSequenceNumber, record.getPartitionKey, arrived, data)
  }

  /** Reads until there are as many records. */
  def main(arguments: Array[String]): Unit = {
    val Array(endpointUrl, stream, folder, records) = arguments
    val spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    val streaming = new StreamingContext(spark.sparkContext, Seconds(1))
    val lines = KinesisInputDStream.builder
      .streamingContext(streaming)
      .streamName(stream)
      .endpointUrl(endpointUrl)
      .regionName(sys.env("AWS_DEFAULT_REGION"))
      .initialPosition(new KinesisInitialPositions.TrimHorizon)
      .checkpointAppName(sys.env("LEASE_TABLE"))
      .checkpointInterval(Seconds(1))
      .storageLevel(StorageLevel.MEMORY_ONLY)
      .metricsLevel(MetricsLevel.NONE)
      .buildWithMessageHandler(line)
    val written = spark.sparkContext.longAccumulator

    def write(rdd: RDD[Line], folder: String): Unit = {
      val counted = rdd.map { each => written.add(1); each }
      spark.createDataFrame(counted).withColumn("stream", lit(stream)).write.mode("append").parquet(folder)
    }

    lines.foreachRDD { rdd =>
      if (rdd.getNumPartitions > 0) write(rdd, folder)
      if (written.value >= records.toLong) {
        println(s"""{"reading_s": ${(System.nanoTime - begunNs.get) / 1e9}}""")
        Runtime.getRuntime.halt(0) // what the reading takes counts, not a graceful end
      }
    }
    streaming.start()
    try {
      // Spark SQL starts while the KCL does, which takes 10 s and more.
      write(spark.sparkContext.parallelize(Seq.empty[Line], 1), s"$folder/start")
      streaming.awaitTermination() // throws what a batch throws
    } catch {
      case error: Throwable => error.printStackTrace()
    }
    Runtime.getRuntime.halt(1)
  }
}
