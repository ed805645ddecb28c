"""What biases and masks share: queries and keys, distances, buckets, slopes, and the sum with scores."""
