/* Sorts texts on two threads for some seconds. */
import java.util.*;

public class Sorts {
	static long run(long seed) {
		Random random = new Random(seed);
		long sum = 0;
		for (int round = 0; round < 40; round++) {
			List<String> texts = new ArrayList<>();
			for (int i = 0; i < 60000; i++)
				texts.add(Long.toHexString(random.nextLong()));
			Collections.sort(texts);
			sum += texts.get(0).hashCode();
		}
		return sum;
	}

	public static void main(String[] args) throws Exception {
		Thread other = new Thread(() -> System.out.println(run(1)));
		other.start();
		System.out.println(run(2));
		other.join();
	}
}
