//! Tables on disk: schema, partitions, segments, manifest, index and the storage seam.
