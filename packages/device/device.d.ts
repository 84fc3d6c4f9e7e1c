/** The content of mechanism.json, parsed. */
export type DeviceFile = Record<string, unknown> & { id: string; told?: number[] };

/** What leaves the device. In mode near `cell` is the number of a hidden report; `told` gives its cell. */
export interface Report {
  artefact: string;
  cell: number;
}

/** What the app allows, whoever wrote the file. Epsilon as text: "0.01" or "1/100". */
export interface Caps {
  epsilonPerMetre?: string;
  reportsPerDay?: number;
  reportsPerMonth?: number;
  reportsPerLife?: number;
}

/** Where the state is kept. `lock` runs one change at a time, for all tabs and processes that share the store. */
export interface Store {
  read(): string | null | undefined | Promise<string | null | undefined>;
  write(text: string): void | Promise<void>;
  lock<T>(act: () => Promise<T>): Promise<T>;
}

export interface Place {
  latitude: number;
  longitude: number;
}

export interface Zone {
  metres: number;
  silent?: boolean;
}

export interface SamplerOptions {
  /** Fills an array with cryptographic random words; default: crypto.getRandomValues. */
  fill?: (words: Uint32Array) => void;
}

export interface OpenDevice {
  /** The report for a cell or a place; null where nothing is to be sent. */
  report(place: number | Place, day?: string): Promise<Report | null>;
  addZone(place: number | Place, zone: Zone): Promise<void>;
  /** The chance of every cell to be told from one cell. */
  law(cell: number): Float64Array;
  /** The cell that stands for a report. */
  tell(report: Report): number;
}

export function openDevice(file: DeviceFile, options: { store: Store; caps?: Caps } & SamplerOptions): OpenDevice;
export function browserStore(name: string, options?: { storage?: Storage; locks?: LockManager }): Store;
/** Recompute everything the file claims; throws where it does not hold. */
export function proveFile(file: DeviceFile): unknown;
/** The number of the cell at a place in degrees; null outside the map. */
export function cellAt(file: DeviceFile, latitude: number, longitude: number): number | null;
export function told(file: DeviceFile, report: { cell: number }): number;
export function lawOf(sampler: Sampler, cell: number): Float64Array;

export class Sampler {
  constructor(file: DeviceFile, options?: SamplerOptions);
  draw(cell: number): number;
}

export class Device {
  constructor(file: DeviceFile, state?: object | null, options?: { caps?: Caps } & SamplerOptions);
  readonly state: object;
  report(cell: number, day?: string): Report | null;
  addZone(cell: number, zone: Zone): void;
}
