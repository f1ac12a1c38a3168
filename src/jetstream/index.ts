/** A cluster on NATS JetStream: `dramatis/jetstream`. The packages of its client are optional peers of this one. */
export { JetStreamStore, type JetStreamStoreOptions } from './jetstream-store.ts'
