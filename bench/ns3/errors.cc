// Success of frames in ns-3's stock error models (NIST for OFDM, DSSS with its CCK integrals), as
// CSV, for a test of our own: sim/src/radio/error/tests.rs.
//
//   g++ -O1 -std=c++17 errors.cc -o errors -lns3-wifi -lns3-network -lns3-core
//   ./errors > ../../sim/src/radio/error/ns3.csv
//
// Columns: the mode (rate in Mb/s of b or a, or MCS of ac at 80 MHz), SINR in dB, bytes, success.

#include "ns3/dsss-phy.h"
#include "ns3/nist-error-rate-model.h"
#include "ns3/ofdm-phy.h"
#include "ns3/vht-phy.h"
#include "ns3/wifi-tx-vector.h"

#include <cmath>
#include <cstdio>
#include <string>

using namespace ns3;

static void
Dump(Ptr<ErrorRateModel> model, const std::string& name, WifiMode mode, WifiPreamble form,
     uint16_t width, uint32_t bytes)
{
    WifiTxVector vector(mode, 0, form, 800, 1, 1, 0, width, false);
    for (int quarter = -40; quarter <= 180; quarter++)
    {
        double db = quarter / 4.0;
        double ratio = std::pow(10.0, db / 10.0);
        double success = model->GetChunkSuccessRate(mode, vector, ratio, bytes * 8);
        if (success > 1e-6 && success < 1 - 1e-6)
            std::printf("%s,%.2f,%u,%.7f\n", name.c_str(), db, bytes, success);
    }
}

int
main()
{
    Ptr<ErrorRateModel> model = CreateObject<NistErrorRateModel>();
    std::printf("# Made by bench/ns3/errors.cc with ns-3 3.37 (Debian libns3-dev).\n");
    std::printf("mode,sinr_db,bytes,success\n");
    const char* names[] = {"b1", "b2", "b5.5", "b11"};
    uint64_t rates[] = {1000000, 2000000, 5500000, 11000000};
    for (int at = 0; at < 4; at++)
        for (uint32_t bytes : {14, 1064, 1500})
            Dump(model, names[at], DsssPhy::GetDsssRate(rates[at]), WIFI_PREAMBLE_LONG, 22, bytes);
    for (uint64_t mbps : {6, 9, 12, 18, 24, 36, 48, 54})
        for (uint32_t bytes : {14, 1500})
            Dump(model, "a" + std::to_string(mbps), OfdmPhy::GetOfdmRate(mbps * 1000000, 20),
                 WIFI_PREAMBLE_LONG, 20, bytes);
    for (int mcs = 0; mcs < 10; mcs++)
        Dump(model, "ac" + std::to_string(mcs), VhtPhy::GetVhtMcs(mcs), WIFI_PREAMBLE_VHT_SU, 80,
             1500);
    return 0;
}
