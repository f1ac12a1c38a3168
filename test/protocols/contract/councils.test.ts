/** The strategies in which agents seek one answer together. */
import { holdsFor } from './holds.ts'

holdsFor('consensus', 'debate')
