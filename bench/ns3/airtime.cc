// Air times of ns-3, as CSV, for a test of our own: proto/tests/airtime_ns3.rs.
//
//   g++ -O1 -std=c++17 airtime.cc -o airtime -I/usr/include -lns3-wifi -lns3-network -lns3-core
//   ./airtime > ../../proto/tests/data/airtime-ns3.csv
//
// Columns: phy, preamble, band (2 or 5), width in MHz, guard interval in ns, streams, the rate or
// MCS (as "11", "m7"), bytes of the PSDU, air time in ns, and that of the preamble and header.

#include "ns3/dsss-phy.h"
#include "ns3/erp-ofdm-phy.h"
#include "ns3/ht-phy.h"
#include "ns3/ofdm-phy.h"
#include "ns3/vht-phy.h"
#include "ns3/wifi-phy.h"
#include "ns3/wifi-tx-vector.h"

#include <cstdio>
#include <string>

using namespace ns3;

static const uint32_t SIZES[] = {14, 20, 32, 100, 576, 1000, 1064, 1536, 1538, 2304};
static const uint32_t LONG[] = {4000, 8192, 16384, 32768, 65535};

static void
Print(const char* phy, const char* preamble, WifiPhyBand band, uint16_t width, uint16_t gi,
      uint8_t streams, const std::string& rate, WifiMode mode, WifiPreamble form, uint32_t bytes)
{
    WifiTxVector vector(mode, 0, form, gi, streams, streams, 0, width, false);
    Time air = WifiPhy::CalculateTxDuration(bytes, vector, band);
    Time head = WifiPhy::CalculatePhyPreambleAndHeaderDuration(vector);
    std::printf("%s,%s,%d,%u,%u,%u,%s,%u,%ld,%ld\n", phy, preamble,
                band == WIFI_PHY_BAND_2_4GHZ ? 2 : 5, width, gi, streams, rate.c_str(), bytes,
                (long)air.GetNanoSeconds(), (long)head.GetNanoSeconds());
}

static std::string
Mbps(uint64_t rate)
{
    char text[32];
    std::snprintf(text, sizeof text, "%g", rate / 1e6);
    return text;
}

int
main()
{
    std::printf("# Made by bench/ns3/airtime.cc with ns-3 3.37 (Debian libns3-dev).\n");
    std::printf("phy,preamble,band,width_mhz,gi_ns,streams,rate,bytes,air_ns,head_ns\n");
    for (uint32_t bytes : SIZES)
    {
        for (uint64_t rate : {1000000, 2000000, 5500000, 11000000})
        {
            WifiMode mode = DsssPhy::GetDsssRate(rate);
            Print("b", "long", WIFI_PHY_BAND_2_4GHZ, 22, 800, 1, Mbps(rate), mode,
                  WIFI_PREAMBLE_LONG, bytes);
            if (rate > 1000000)
                Print("b", "short", WIFI_PHY_BAND_2_4GHZ, 22, 800, 1, Mbps(rate), mode,
                      WIFI_PREAMBLE_SHORT, bytes);
        }
        for (uint64_t units : {24, 36, 48, 72, 96, 144, 192, 216})
        {
            uint64_t rate = units * 250000;
            Print("a", "long", WIFI_PHY_BAND_5GHZ, 20, 800, 1, Mbps(rate),
                  OfdmPhy::GetOfdmRate(rate, 20), WIFI_PREAMBLE_LONG, bytes);
            Print("a", "long", WIFI_PHY_BAND_5GHZ, 10, 800, 1, Mbps(rate / 2),
                  OfdmPhy::GetOfdmRate(rate / 2, 10), WIFI_PREAMBLE_LONG, bytes);
            Print("a", "long", WIFI_PHY_BAND_5GHZ, 5, 800, 1, Mbps(rate / 4),
                  OfdmPhy::GetOfdmRate(rate / 4, 5), WIFI_PREAMBLE_LONG, bytes);
            Print("g", "long", WIFI_PHY_BAND_2_4GHZ, 20, 800, 1, Mbps(rate),
                  ErpOfdmPhy::GetErpOfdmRate(rate), WIFI_PREAMBLE_LONG, bytes);
        }
    }
    for (int large = 0; large < 2; large++)
        for (uint16_t gi : {800, 400})
            for (uint8_t streams : {1, 2})
                for (uint16_t width : {20, 40, 80})
                    for (uint8_t index = 0; index < 10; index++)
                    {
                        const uint32_t* sizes = large ? LONG : SIZES;
                        size_t count = large ? std::size(LONG) : std::size(SIZES);
                        for (size_t at = 0; at < count; at++)
                        {
                            uint32_t bytes = sizes[at];
                            if (width < 80 && index < 8)
                            {
                                uint8_t mcs = index + 8 * (streams - 1);
                                std::string name = "m" + std::to_string(mcs);
                                for (WifiPhyBand band : {WIFI_PHY_BAND_5GHZ, WIFI_PHY_BAND_2_4GHZ})
                                    Print("n", "long", band, width, gi, streams, name,
                                          HtPhy::GetHtMcs(mcs), WIFI_PREAMBLE_HT_MF, bytes);
                            }
                            if (width == 20 && index == 9)
                                continue;
                            Print("ac", "long", WIFI_PHY_BAND_5GHZ, width, gi, streams,
                                  "m" + std::to_string(index), VhtPhy::GetVhtMcs(index),
                                  WIFI_PREAMBLE_VHT_SU, bytes);
                        }
                    }
    return 0;
}
