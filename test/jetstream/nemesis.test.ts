/** As on PostgreSQL, with brokers that die, freeze, are cut off and lead by turns: nothing is lost or done twice. */
import { endsOnce } from '../cluster/ends-once.ts'

endsOnce('JetStream', { plain: 6, deep: 36 }, 40)
