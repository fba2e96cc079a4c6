import com.amazon.randomcutforest.config.ForestMode;
import com.amazon.randomcutforest.config.Precision;
import com.amazon.randomcutforest.config.TransformMethod;
import com.amazon.randomcutforest.parkservices.AnomalyDescriptor;
import com.amazon.randomcutforest.parkservices.ThresholdedRandomCutForest;
import java.io.BufferedReader;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Random cut forests over files of rows, with the settings of OpenSearch's detectors.
 *
 * <p>Each argument is a CSV file without a header: seconds, then the channels. Beside it comes
 * FILE.grades: a line for each row with its place, its anomaly grade, and the channel of the largest
 * share of its score; -1 as grade where the forest does not answer yet.
 */
public final class RandomCutForest {
  private static final int SHINGLE = 8;
  private static final int SAMPLES = 256;

  public static void main(String[] files) throws Exception {
    for (String file : files) {
      try (BufferedReader rows = Files.newBufferedReader(Path.of(file));
          PrintStream grades = new PrintStream(file + ".grades")) {
        run(rows, grades);
      }
    }
  }

  private static void run(BufferedReader rows, PrintStream grades) throws Exception {
    ThresholdedRandomCutForest forest = null;
    String line;
    for (int at = 0; (line = rows.readLine()) != null; at++) {
      String[] cells = line.split(",");
      double[] row = new double[cells.length - 1];
      for (int channel = 0; channel < row.length; channel++) {
        row[channel] = Double.parseDouble(cells[channel + 1]);
      }
      if (forest == null) {
        forest = forestOf(row.length);
      }
      AnomalyDescriptor found = forest.process(row, Long.parseLong(cells[0]));
      // It answers once it has 32 shingles.
      double grade = at < 32 + SHINGLE ? -1 : found.getAnomalyGrade();
      grades.println(at + "," + grade + "," + largest(found.getRelevantAttribution()));
    }
  }

  private static ThresholdedRandomCutForest forestOf(int channels) {
    return ThresholdedRandomCutForest.builder()
        .dimensions(channels * SHINGLE)
        .shingleSize(SHINGLE)
        .sampleSize(SAMPLES)
        .numberOfTrees(30)
        .timeDecay(1.0 / (10 * SAMPLES))
        .transformDecay(1.0 / (10 * SAMPLES))
        .outputAfter(32)
        .initialAcceptFraction(32.0 / SAMPLES)
        .anomalyRate(0.005)
        .precision(Precision.FLOAT_32)
        .internalShinglingEnabled(true)
        .transformMethod(TransformMethod.NORMALIZE)
        .forestMode(ForestMode.STREAMING_IMPUTE)
        .alertOnce(true)
        .autoAdjust(true)
        .randomSeed(1)
        .build();
  }

  private static int largest(double[] shares) {
    int best = 0;
    for (int channel = 1; shares != null && channel < shares.length; channel++) {
      best = shares[channel] > shares[best] ? channel : best;
    }
    return best;
  }
}
